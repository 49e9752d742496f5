"""Builds wheel and sdist from the tracked files, and tries them in empty environments.

    make release-check

Each check prints a line; the first failure ends the command with status 1. The files stay in
dist/.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parent.parent
PYTHONS = ("3.11", "3.12", "3.13")
SMOKE = ROOT / "tools" / "release_smoke.py"
# Files of packages that the wheel omits, because installed code never reads these weights.
LEFT_OUT = {"examples/tiny_model/model.safetensors"}
INSTALLED = {"backedge"}
MAX_MIB = 5
# Folders that are in neither file.
NOT_SHIPPED = ("tests", "benchmarks", "tools", ".ci")


class ReleaseError(Exception):
    """A check failed. The message names it, with what was found."""


def run(*command: str | Path, cwd: Path | None = None) -> str:
    """Return a command's output. Raises `ReleaseError` with the output if it fails."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        words = " ".join(str(word) for word in command)
        raise ReleaseError(f"{words} ended with status {done.returncode}:\n{done.stderr}")
    return done.stdout


def read_project() -> dict[str, object]:
    """Return the table `project` of pyproject.toml."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        found: dict[str, object] = tomllib.load(file)["project"]
    return found


def list_tracked() -> list[str]:
    """Return the repository's files that git tracks or would add."""
    names = run("git", "ls-files", "--cached", "--others", "--exclude-standard", cwd=ROOT)
    return [name for name in names.splitlines() if (ROOT / name).is_file()]


def build(target: Path) -> tuple[Path, Path]:
    """Build the sdist, and the wheel from it; return both. target: an empty folder for them."""
    with tempfile.TemporaryDirectory() as folder:
        # In a copy: setuptools leaves folders in the source tree and packages their content.
        for name in list_tracked():
            copied = Path(folder) / name
            copied.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, copied)
        build_command = (sys.executable, "-m", "build", "--no-isolation")
        run(*build_command, "--outdir", target, folder)
    (sdist,), (wheel,) = target.glob("*.tar.gz"), target.glob("*.whl")
    return sdist, wheel


def list_contents(archive: Path) -> set[str]:
    """Return the files in a wheel or sdist, without an sdist's top folder."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            return {name for name in wheel.namelist() if not name.endswith("/")}
    with tarfile.open(archive) as sdist:
        names = [member.name for member in sdist.getmembers() if member.isfile()]
    return {str(PurePosixPath(*PurePosixPath(name).parts[1:])) for name in names}


def read_packages() -> dict[str, str]:
    """Return the folder of each package of pyproject.toml."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        packages: list[str] = tomllib.load(file)["tool"]["setuptools"]["packages"]
    return {name: name.removeprefix("backedge.").replace(".", "/") for name in packages}


def find_missing(contents: set[str]) -> set[str]:
    """Return the files of the packages' folders that a wheel lacks, data included."""
    folders = set(read_packages().values())
    tracked = {name for name in list_tracked() if str(PurePosixPath(name).parent) in folders}
    return {name for name in tracked - LEFT_OUT if f"backedge/{name}" not in contents}


def check_contents(sdist: Path, wheel: Path) -> None:
    """Raise `ReleaseError` if a file is missing, unexpected, or too large."""
    in_wheel, in_sdist = list_contents(wheel), list_contents(sdist)
    if missing := find_missing(in_wheel):
        raise ReleaseError(f"{wheel.name} lacks {sorted(missing)}")
    shipped = {name.partition("/")[0] for name in in_wheel}
    metadata = {name for name in shipped if name.endswith(".dist-info")}
    if shipped - metadata != INSTALLED:
        raise ReleaseError(f"{wheel.name} installs {sorted(shipped)}, not {sorted(INSTALLED)}")
    for name, contents in ((wheel.name, in_wheel), (sdist.name, in_sdist)):
        if not any(PurePosixPath(path).name == "LICENSE" for path in contents):
            raise ReleaseError(f"{name} has no LICENSE")
        if wrong := [path for path in contents if path.startswith(NOT_SHIPPED)]:
            raise ReleaseError(f"{name} has {sorted(wrong)}")
    for archive in (sdist, wheel):
        if (size := archive.stat().st_size / 2**20) > MAX_MIB:
            raise ReleaseError(f"{archive.name} has {size:.1f} MiB; at most {MAX_MIB} are expected")


def check_metadata(files: Sequence[Path]) -> None:
    """Raise `ReleaseError` if a registry would reject the metadata or README."""
    run(sys.executable, "-m", "twine", "check", "--strict", *files)


def check_changelog() -> None:
    """Raise `ReleaseError` if CHANGELOG.md does not begin with the version of pyproject.toml."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    first = re.search(r"^## (\S+)", text, re.MULTILINE)
    version = read_project()["version"]
    if first is None or first.group(1) != version:
        found = first and first.group(1)
        raise ReleaseError(f"CHANGELOG.md begins with {found}; pyproject.toml says {version}")


def find_python(version: str) -> str | None:
    """Return the interpreter of a version like "3.12", from PATH or pyenv's folder, or None."""
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    candidates = [
        shutil.which(f"python{version}"),
        *(str(path) for path in sorted(root.glob(f"versions/{version}.*/bin/python"))),
    ]
    for candidate in filter(None, candidates):
        # pyenv's commands for versions that are not selected fail.
        if subprocess.run([candidate, "-c", ""], capture_output=True, check=False).returncode == 0:
            return candidate
    return None


def install_and_try(python: str, wheel: Path, folder: Path) -> str:
    """Install the wheel in an environment below `folder`; return the smoke test's output.

    Raises `ReleaseError` if it cannot be installed, imported or used.
    """
    run(python, "-m", "venv", "--without-pip", folder)
    installed = folder / "bin" / "python"
    flags = ("--quiet", "--disable-pip-version-check", "--no-compile")
    # Use this environment's pip, because installing a new one takes seconds.
    run(sys.executable, "-m", "pip", "--python", installed, "install", *flags, wheel)
    run(folder / "bin" / "backedge", "--help", cwd=folder)
    return run(installed, "-I", SMOKE, cwd=folder).strip()


def main() -> None:
    """Run all checks; exit with the first failure."""
    target = ROOT / "dist"
    shutil.rmtree(target, ignore_errors=True)
    try:
        check_changelog()
        sdist, wheel = build(target)
        print(f"built {sdist.name} and {wheel.name}")
        check_contents(sdist, wheel)
        check_metadata([sdist, wheel])
        print("contents and metadata are correct")
        for version in PYTHONS:
            if (python := find_python(version)) is None:
                print(f"Python {version}: not installed, not tried")
                continue
            with tempfile.TemporaryDirectory() as folder:
                print(f"Python {version}: {install_and_try(python, wheel, Path(folder) / 'venv')}")
    except ReleaseError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
