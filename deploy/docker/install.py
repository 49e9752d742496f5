"""Installs Backedge beside an engine, and changes no package that is there.

    python install.py REQUIREMENT                  into the environment of this Python
    python install.py --target FOLDER REQUIREMENT  into a folder for PYTHONPATH

REQUIREMENT: what pip installs, such as `backedge==0.2.0`, the path of a wheel or its URL. Run it
with the Python that runs Dynamo. It ends with status 1, and says why, if Backedge does not fit.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

NAME = "backedge"
DYNAMO = "ai-dynamo"
# Where engines and torch look for Backedge.
ENTRY_POINT_GROUPS = ("vllm.general_plugins", "sglang.srt.platforms", "torch.backends")


class InstallError(Exception):
    """Backedge cannot be installed here, or does not fit; the message says what to change."""


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
        # A folder on PYTHONPATH hides packages of the environment, so it gets Backedge alone.
        run_pip("--no-deps", "--upgrade", "--target", str(target), requirement)
        path = [str(target)]
    check(before, list_versions(), path)


def list_versions() -> dict[str, str]:
    """Return the version of each package that this Python finds, by its name in lower case."""
    importlib.invalidate_caches()
    found: dict[str, str] = {}
    for distribution in importlib.metadata.distributions():
        # The first one on the path counts.
        found.setdefault(distribution.name.lower().replace("_", "-"), distribution.version)
    return found


def run_pip(*arguments: str) -> None:
    """Run `pip install`. Raises `InstallError` if it fails; what it prints goes to the terminal."""
    command = (sys.executable, "-m", "pip", "install", "--no-cache-dir")
    status = subprocess.run([*command, *arguments], check=False).returncode
    if status != 0:
        raise InstallError(f"pip ended with status {status}; see above")


def check(before: Mapping[str, str], after: Mapping[str, str], path: Iterable[str]) -> None:
    """Check what has been installed.

    before, after: versions by package. path: the folders in which Backedge is looked for.
    Raises `InstallError`.
    """
    changed = [
        f"{name} from {version} to {after.get(name, 'nothing')}"
        for name, version in before.items()
        if name != NAME and after.get(name) != version
    ]
    if changed:
        raise InstallError(f"the installation changed {', '.join(changed)}")
    found = next(iter(importlib.metadata.distributions(name=NAME, path=list(path))), None)
    if found is None:
        raise InstallError(f"what was installed is not {NAME}")
    unmet = find_unmet(found.requires or (), after)
    if unmet:
        raise InstallError(f"{NAME} {found.version} needs {', '.join(unmet)}")
    groups = {point.group for point in found.entry_points if point.name == NAME}
    missing = [group for group in ENTRY_POINT_GROUPS if group not in groups]
    if missing:
        raise InstallError(f"{NAME} {found.version} has no entry point for {', '.join(missing)}")
    print(f"install: {NAME} {found.version} fits; {len(before)} packages are as they were")


def find_unmet(requirements: Iterable[str], versions: Mapping[str, str]) -> list[str]:
    """Return what is missing, with what is there instead. requirements: as in metadata."""
    from packaging.requirements import Requirement

    unmet = []
    for text in requirements:
        requirement = Requirement(text)
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        version = versions.get(requirement.name.lower().replace("_", "-"))
        if version is None:
            unmet.append(f"{requirement.name}{requirement.specifier}, and there is none")
        elif not requirement.specifier.contains(version, prereleases=True):
            unmet.append(f"{requirement.name}{requirement.specifier}, and there is {version}")
    return unmet


if __name__ == "__main__":
    main()
