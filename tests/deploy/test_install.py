"""The installer of images and init containers: Backedge goes in, nothing else changes."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from deploy.docker import install

SCRIPT = install.__file__
POINTS = "".join(f"[{group}]\nbackedge = backedge:x\n" for group in install.ENTRY_POINT_GROUPS)


def write_wheel(folder: Path, *requires: str, points: str = POINTS, name: str = "backedge") -> Path:
    """Write a wheel of version 9.9 with these requirements and entry points."""
    path = folder / f"{name}-9.9-py3-none-any.whl"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: 9.9\n"
    info = f"{name}-9.9.dist-info"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(f"{name}/__init__.py", "")
        wheel.writestr(
            f"{info}/METADATA", metadata + "".join(f"Requires-Dist: {line}\n" for line in requires)
        )
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/entry_points.txt", points)
        wheel.writestr(f"{info}/RECORD", "")
    return path


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, SCRIPT, *arguments], capture_output=True, text=True, check=False
    )


def test_into_a_folder_goes_backedge_alone(tmp_path: Path) -> None:
    """With pip itself, twice: an init container runs again when its pod restarts."""
    wheel = write_wheel(tmp_path, "msgspec>=0.19", "nothing-of-that-name; extra == 'test'")
    target = tmp_path / "target"
    for _ in range(2):
        done = run("--target", str(target), str(wheel))
        assert done.returncode == 0, done.stderr
    assert "backedge 9.9 fits" in done.stdout
    assert {path.name for path in target.iterdir()} == {"backedge", "backedge-9.9.dist-info"}


@pytest.mark.parametrize(
    ("requires", "points", "said"),
    [
        (["msgspec>=99"], POINTS, r"needs msgspec>=99, but \d"),
        (["no-such-package>=1"], POINTS, "needs no-such-package>=1, but it is not installed"),
        ([], "", "has no entry point for vllm.general_plugins, sglang.srt.platforms, torch.backe"),
    ],
)
def test_what_does_not_fit_is_refused(
    tmp_path: Path, monkeypatch: Any, requires: list[str], points: str, said: str
) -> None:
    wheel = write_wheel(tmp_path, *requires, points=points)

    def unpack(*arguments: str) -> None:
        with zipfile.ZipFile(arguments[-1]) as files:
            files.extractall(arguments[arguments.index("--target") + 1])

    monkeypatch.setattr(install, "run_pip", unpack)
    with pytest.raises(install.InstallError, match=said):
        install.install(str(wheel), tmp_path / "target")


def test_another_package_is_refused(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(install, "run_pip", lambda *arguments: None)
    with pytest.raises(install.InstallError, match="the installed package is not backedge"):
        install.install(str(write_wheel(tmp_path, name="other")), tmp_path / "target")


@pytest.mark.parametrize(
    "requirement",
    [
        "backedge",
        "backedge==0.2.0",
        "https://x.example/b.whl",
        "https://x.example/b.whl#sha256=SET",
    ],
)
def test_a_pod_installs_nothing_without_a_digest(tmp_path: Path, requirement: str) -> None:
    done = run("--target", str(tmp_path), requirement)
    assert done.returncode == 1
    assert "is neither a file nor a URL that ends in `#sha256=` and the digest" in done.stderr


def test_a_wheel_with_another_digest_is_refused(tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path)
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    assert run("--target", str(tmp_path / "a"), f"{wheel.as_uri()}#sha256={digest}").returncode == 0
    done = run("--target", str(tmp_path / "b"), f"{wheel.as_uri()}#sha256={'0' * 64}")
    assert done.returncode == 1
    assert not (tmp_path / "b").exists()


def test_every_package_of_the_image_is_pinned(monkeypatch: Any) -> None:
    pins: list[str] = []

    def read(*arguments: str) -> None:
        pins.extend(Path(arguments[arguments.index("--constraint") + 1]).read_text().split())

    monkeypatch.setattr(install, "run_pip", read)
    install.install("backedge", None)
    versions = install.list_versions()
    assert set(pins) == {f"{name}=={version}" for name, version in versions.items()}
    assert any(re.fullmatch(r"ai-dynamo==1\.\d+\.\d+.*", pin) for pin in pins)


@pytest.mark.parametrize("now", [{}, {"torch": "2.14"}])
def test_a_package_that_changed_is_named(now: dict[str, str]) -> None:
    with pytest.raises(install.InstallError, match=r"changed torch from 2\.13 to (nothing|2\.14)"):
        install.check({"torch": "2.13", "backedge": "0.1"}, {"backedge": "0.2", **now}, sys.path)


def test_a_python_without_dynamo_is_refused(monkeypatch: Any) -> None:
    monkeypatch.setattr(install, "list_versions", dict)
    with pytest.raises(install.InstallError, match="run this with Dynamo's Python"):
        install.install("backedge", None)


def test_pips_failure_is_one_line_more(tmp_path: Path) -> None:
    (tmp_path / "none.whl").touch()
    done = run("--target", str(tmp_path), str(tmp_path / "none.whl"))
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("install: pip ended with status ")
