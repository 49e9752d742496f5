"""`tools/gpu_bench`: runs `benchmarks.gpu` on a machine that has torch, transformers and a GPU.

    tools/gpu_bench prepare WHEELS --python 3.12    # where a network is
    tools/gpu_bench run WHEELS [--json]             # on the machine with the GPU, in a checkout

`prepare` downloads the packages of tools/locks/light.lock for the other machine's Python. Large
ones are in parts of less than 60 MB, for machines that take no larger files. `run` installs those
that the machine lacks, and this checkout, into a folder that ends with the run; it needs nothing
from outside. $PYTHON names the interpreter that has torch and transformers.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent
LOCK = ROOT / "tools" / "locks" / "light.lock"
PART_BYTES = 50_000_000
# Builds the checkout's package; an older one, which many machines have, cannot.
BUILDER = "setuptools"
# Names of Linux in wheels; pip compares their numbers exactly.
PLATFORMS = (
    *("manylinux_2_28", "manylinux_2_27", "manylinux_2_26", "manylinux_2_24"),
    *("manylinux_2_17", "manylinux2014", "manylinux_2_12", "manylinux2010", "manylinux1"),
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Prepare the folder, or run the benchmark; exit with its status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0], allow_abbrev=False)
    commands = parser.add_subparsers(required=True, dest="command")
    preparing = commands.add_parser("prepare", help="download the packages; needs a network")
    running = commands.add_parser("run", help="run the benchmark; more flags are benchmarks.gpu's")
    for command in (preparing, running):
        command.add_argument("wheels", type=Path, help="folder of the packages")
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    preparing.add_argument("--python", default=version, help=f"of the GPU's machine ({version})")
    preparing.add_argument("--machine", default="x86_64", help="of the GPU's machine (x86_64)")
    chosen, rest = parser.parse_known_args(arguments)
    if chosen.command == "run":
        sys.exit(run(chosen.wheels, rest))
    if rest:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    prepare(chosen.wheels, chosen.python, chosen.machine)


def prepare(wheels: Path, python: str, machine: str) -> None:
    """Download the wheels for this version of Python, and split the large ones."""
    platforms = [f"--platform={name}_{machine}" for name in PLATFORMS]
    wanted = ("--no-deps", "--require-hashes", "--only-binary=:all:", f"--python-version={python}")
    download = (*pip("download"), *wanted, *platforms, "--dest", str(wheels), "-r", str(LOCK))
    subprocess.run(download, check=True)
    for wheel in sorted(wheels.glob("*.whl")):
        if wheel.stat().st_size > PART_BYTES:
            split(wheel)
    size_mb = sum(path.stat().st_size for path in wheels.iterdir()) / 1e6
    print(f"gpu_bench: {size_mb:.0f} MB in {wheels}; take the folder and this checkout along")


def run(wheels: Path, flags: Sequence[str]) -> int:
    """Install what is missing beside the machine's packages, and run the benchmark."""
    with tempfile.TemporaryDirectory(prefix="backedge-gpu-") as folder:
        site = Path(folder) / "site"
        install(wheels, Path(folder), site)
        paths = (str(site), str(ROOT), os.environ.get("PYTHONPATH", ""))
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
        command = (sys.executable, "-m", "benchmarks.gpu", *flags)
        return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


def install(wheels: Path, folder: Path, site: Path) -> None:
    """Install into `site` the locked packages that this Python lacks, and this checkout."""
    joined = folder / "joined"
    joined.mkdir()
    for first in sorted(wheels.glob("*.whl.0")):
        join(first, joined)
    lock = folder / "missing.lock"
    missing = find_missing(LOCK.read_text(encoding="utf-8"))
    lock.write_text("".join(missing), encoding="utf-8")
    found = ("--no-index", "--find-links", str(wheels), "--find-links", str(joined))
    into = ("--no-deps", "--no-compile", "--target", str(site))
    if missing:
        locked = (*found, *into, "--require-hashes", "-r", str(lock))
        subprocess.run((*pip("install"), *locked), check=True)
    environment = {**os.environ, "PYTHONPATH": str(site)}
    own = (*pip("install"), "--no-index", "--no-build-isolation", *into, str(ROOT))
    subprocess.run(own, env=environment, check=True)


def pip(command: str) -> tuple[str, ...]:
    """Return a quiet command of pip, run by this interpreter."""
    return (sys.executable, "-m", "pip", command, "--quiet", "--disable-pip-version-check")


def find_missing(lock: str) -> list[str]:
    """Return the entries of a lock whose packages are not installed here, and the builder's."""
    entries: list[str] = []
    for line in lock.splitlines(keepends=True):
        if line[0].isspace():
            entries[-1] += line
        elif not line.startswith("#"):
            entries.append(line)
    named = ((entry.partition("==")[0], entry) for entry in entries)
    return [entry for name, entry in named if name == BUILDER or not is_installed(name)]


def is_installed(package: str) -> bool:
    """Whether this Python has the package, in any version."""
    try:
        importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def split(path: Path) -> None:
    """Replace a file by parts named .0, .1 and so on."""
    with path.open("rb") as whole:
        number = 0
        while part := whole.read(PART_BYTES):
            path.with_name(f"{path.name}.{number}").write_bytes(part)
            number += 1
    path.unlink()


def join(first: Path, folder: Path) -> None:
    """Write the whole of the parts that begin with `first` into `folder`."""
    with (folder / first.stem).open("wb") as whole:
        number = 0
        while (part := first.with_suffix(f".{number}")).exists():
            whole.write(part.read_bytes())
            number += 1


if __name__ == "__main__":
    main()
