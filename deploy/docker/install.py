"""Installs Backedge next to an engine, without changing any installed package.

    python install.py REQUIREMENT                  into the environment of this Python
    python install.py --target FOLDER WHEEL        into a folder for PYTHONPATH

REQUIREMENT: an argument for pip, such as `backedge==0.2.0` or the path of a wheel. WHEEL: a path,
or a URL that ends in `#sha256=DIGEST`. Run it with the Python of Dynamo. It exits with status 1 and
a reason if Backedge does not fit.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

NAME = "backedge"
# pip compares a wheel with the digest in its URL.
DIGEST = re.compile(r"#sha256=[0-9a-f]{64}$")
DYNAMO = "ai-dynamo"
# Entry points through which engines and torch find Backedge.
ENTRY_POINT_GROUPS = ("vllm.general_plugins", "sglang.srt.platforms", "torch.backends")


class InstallError(Exception):
    """Backedge cannot be installed here, or does not fit. The message says what to change."""


def main() -> None:
    """Install what the command line asks for, and check it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--target", type=Path, help="a folder for PYTHONPATH")
    parser.add_argument("requirement", help="what pip installs")
    options = parser.parse_args()
    try:
        install(options.requirement, options.target)
    except InstallError as error:
        sys.exit(f"install: {error}")


def install(requirement: str, target: Path | None) -> None:
    """Install `requirement`, and check that it fits. Raises `InstallError`."""
    if target is not None and not (Path(requirement).is_file() or DIGEST.search(requirement)):
        raise InstallError(
            f"{requirement!r} is neither a file nor a URL that ends in `#sha256=` and the digest, "
            "so a pod that starts later might get another wheel"
        )
    before = list_versions()
    if DYNAMO not in before:
        raise InstallError(f"{sys.executable} has no {DYNAMO}; run this with Dynamo's Python")
    if target is None:
        pins = "".join(f"{name}=={version}\n" for name, version in sorted(before.items()))
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as constraints:
            constraints.write(pins)
            constraints.flush()
            run_pip("--constraint", constraints.name, requirement)
        path = sys.path
    else:
        # A folder on PYTHONPATH hides packages of the environment, so it must hold only Backedge.
        run_pip("--no-deps", "--upgrade", "--target", str(target), requirement)
        path = [str(target)]
    check(before, list_versions(), path)


def list_versions() -> dict[str, str]:
    """Return the version of each package that this Python finds, by lower-case name."""
    importlib.invalidate_caches()
    found: dict[str, str] = {}
    for distribution in importlib.metadata.distributions():
        # The first one on the path wins.
        found.setdefault(distribution.name.lower().replace("_", "-"), distribution.version)
    return found


def run_pip(*arguments: str) -> None:
    """Run `pip install`. Raises `InstallError` if it fails; its output goes to the terminal."""
    command = (sys.executable, "-m", "pip", "install", "--no-cache-dir")
    status = subprocess.run([*command, *arguments], check=False).returncode
    if status != 0:
        raise InstallError(f"pip ended with status {status}; see above")


def check(before: Mapping[str, str], after: Mapping[str, str], path: Iterable[str]) -> None:
    """Check the installation.

    before, after: versions by package. path: the folders to search for Backedge.
    Raises `InstallError`.
    """
    if changed := find_changed(before, after):
        raise InstallError(f"the installation changed {', '.join(changed)}")
    found = next(iter(importlib.metadata.distributions(name=NAME, path=list(path))), None)
    if found is None:
        raise InstallError(f"the installed package is not {NAME}")
    unmet = find_unmet(found.requires or (), after)
    if unmet:
        raise InstallError(f"{NAME} {found.version} needs {', '.join(unmet)}")
    groups = {point.group for point in found.entry_points if point.name == NAME}
    missing = [group for group in ENTRY_POINT_GROUPS if group not in groups]
    if missing:
        raise InstallError(f"{NAME} {found.version} has no entry point for {', '.join(missing)}")
    print(f"install: {NAME} {found.version} fits; {len(before)} packages are unchanged")


def find_changed(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Return the packages that the installation has changed, Backedge aside."""
    return [
        f"{name} from {version} to {after.get(name, 'nothing')}"
        for name, version in before.items()
        if name != NAME and after.get(name) != version
    ]


def find_unmet(requirements: Iterable[str], versions: Mapping[str, str]) -> list[str]:
    """Return the unmet requirements, with the version found. requirements: as in metadata."""
    from packaging.requirements import Requirement

    unmet = []
    for text in requirements:
        requirement = Requirement(text)
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        version = versions.get(requirement.name.lower().replace("_", "-"))
        if version is None:
            unmet.append(f"{requirement.name}{requirement.specifier}, but it is not installed")
        elif not requirement.specifier.contains(version, prereleases=True):
            unmet.append(f"{requirement.name}{requirement.specifier}, but {version} is installed")
    return unmet


if __name__ == "__main__":
    main()
