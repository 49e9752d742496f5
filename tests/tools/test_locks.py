"""The locks of the environments: each file by its digest, and all that the package asks for."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
LOCKS = [*sorted((ROOT / "tools" / "locks").glob("*.lock")), ROOT / "deploy/docker/build.lock"]
# What an environment installs of `pyproject.toml`, beside the package's own dependencies.
EXTRAS = {
    "tests": ("test", "dev", "docs", "release", "turns"),
    "docs": ("docs",),
    "light": ("light",),
}
ENTRY = re.compile(r"^([\w.-]+)==(\S+)((?: \\\n    --hash=sha256:[0-9a-f]{64})+)$", re.MULTILINE)


def read_lock(path: Path) -> dict[str, str]:
    return {
        canonicalize_name(name): version for name, version, _ in ENTRY.findall(path.read_text())
    }


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.stem)
def test_each_package_has_its_digests(path: Path) -> None:
    lines = [line for line in path.read_text().splitlines() if line[:1] not in ("", "#", " ")]
    assert len(read_lock(path)) == len(lines) > 0
    assert "//" not in path.read_text(), "no index is named"


@pytest.mark.parametrize("name", EXTRAS)
def test_a_lock_has_what_the_package_asks_for(name: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = [*project["dependencies"], "setuptools>=77"]
    asked += (each for extra in EXTRAS[name] for each in project["optional-dependencies"][extra])
    locked = read_lock(ROOT / "tools" / "locks" / f"{name}.lock")
    for requirement in map(Requirement, asked):
        version = locked[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(version), requirement
