"""Checks the seams against installed and published versions; no engine is started.

python -m tools.seams            # .venv and, if it is there, .venv-1.7: what CI runs
python -m tools.seams --newer    # also wheels of later versions, downloaded without dependencies

Shows for each version which uses do not hold, and what has changed in the bodies that Backedge
replaces, compared with .venv. Exit code 1: a use does not hold in an installed environment.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import difflib
import importlib
import inspect
import json
import os
import pkgutil
import subprocess
import sys
import tempfile
import textwrap
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import msgspec
from backedge.base.seams import Seam, Use, find_fault, read_version

ROOT = Path(__file__).parent.parent
TABLES = ("dynamo", "vllm", "sglang", "trtllm", "transformers")
SUPPORTED, NEXT = ROOT / ".venv", ROOT / ".venv-1.7"
# Later versions: the distribution, its version, the package in it.
NEWER = (("vllm", "0.33.0", "vllm"), ("sglang", "0.5.23", "sglang"))
# Bodies whose changes are shown, and how many lines of a difference.
SHOWN = ("replaced", "subclassed", "text")
MAX_SHOWN = 12


class Row(msgspec.Struct):
    """A use in one environment. fault: "" if it holds. body: its source, without comments."""

    name: str
    kind: str
    feature: str
    fault: str
    body: str


class Checked(NamedTuple):
    """The rows in one environment, and its versions in words."""

    versions: str
    rows: Sequence[Row]


def read_rows(package: str) -> Iterator[Row]:
    """Yield all rows in this process's environment, or those of one package."""
    for table in TABLES:
        seams = importlib.import_module(f"backedge.engines.{table}.seams")
        if read_version(seams.PACKAGES[-1]) == "none" and not package:
            continue
        for seam in chain(*seams.SEAMS.values()):
            for use in seam.uses:
                if use.module.partition(".")[0] == package or not package:
                    yield read_row(seam, use)


def read_row(seam: Seam, use: Use) -> Row:
    """Return the row of one of a seam's uses."""
    fault = find_fault(use) or ""
    return Row(use.name, use.kind, seam.feature, fault, "" if fault else read_body(use))


def read_body(use: Use) -> str:
    """Return the source of a use without comments, docstrings and layout; "" of a value."""
    try:
        source = inspect.getsource(pkgutil.resolve_name(use.name))
        tree = ast.parse(textwrap.dedent(source))
    except (AttributeError, OSError, TypeError, SyntaxError):  # a value, or a field of instances
        return ""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and is_docstring(body[0]):
            body[:] = body[1:] or [ast.Pass()]
    return ast.unparse(tree)


def is_docstring(node: ast.AST) -> bool:
    """Whether a statement is a text alone."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def start_reading(
    venv: Path, package: str = "", front: Path | None = None
) -> subprocess.Popen[str]:
    """Read the rows in another environment. front: a folder whose packages come first."""
    folders = [front, ROOT / "tests/standin", *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(str(folder) for folder in folders if folder),
        "SGLANG_USE_CPU_ENGINE": "1",
    }
    return subprocess.Popen(
        [venv / "bin/python", "-m", "tools.seams", "--dump", package],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def finish_reading(process: subprocess.Popen[str], versions: str = "") -> Checked:
    """Return what an environment's process has read."""
    printed, _ = process.communicate()
    if process.returncode:
        raise SystemExit(f"seams: the rows could not be read (exit code {process.returncode})")
    found = json.loads(printed.splitlines()[-1])
    return Checked(versions or found["versions"], msgspec.convert(found["rows"], list[Row]))


def compare(checked: Checked, base: Mapping[str, Row]) -> Iterator[str]:
    """Yield what to show of an environment, beside the rows of the supported one."""
    faults = [row for row in checked.rows if row.fault]
    yield f"{checked.versions}: {len(checked.rows) - len(faults)} of {len(checked.rows)} uses hold"
    for row in faults:
        effect = f"; {row.feature} is off" if row.feature else ""
        yield f"  does not hold: {row.fault}{effect}"
    for row in checked.rows:
        before = base.get(row.name)
        if before is None or row.fault or before.fault or row.body == before.body:
            continue
        lines = [
            line
            for line in difflib.unified_diff(
                before.body.splitlines(), row.body.splitlines(), lineterm="", n=0
            )
            if not line.startswith(("---", "+++", "@@")) and len(line) > 1
        ]
        yield f"  changed ({row.kind}): {row.name}, {len(lines)} lines"
        if row.kind in SHOWN:
            yield from (f"      {line[:110]}" for line in lines[:MAX_SHOWN])
            if len(lines) > MAX_SHOWN:
                yield f"      ... {len(lines) - MAX_SHOWN} more"


@contextlib.contextmanager
def unpacked_wheel(distribution: str, version: str) -> Iterator[tuple[Path, str] | None]:
    """Download a wheel and unpack it; None if it cannot be had, and otherwise folder and name."""
    with tempfile.TemporaryDirectory() as folder:
        download = ("download", "--quiet", "--no-deps", "--only-binary", ":all:", "--dest", folder)
        done = subprocess.run(
            [sys.executable, "-m", "pip", *download, f"{distribution}=={version}"],
            check=False,
            capture_output=True,
        )
        wheels = list(Path(folder).glob("*.whl"))
        if done.returncode or not wheels:
            yield None
            return
        site = Path(folder) / "site"
        with zipfile.ZipFile(wheels[0]) as archive:
            archive.extractall(site)
        yield site, " ".join(wheels[0].name.split("-")[:2])


def check_newer(base: Mapping[str, Row]) -> Iterator[str]:
    """Yield what to show of later versions' wheels; dependencies are those installed."""
    venv = NEXT if NEXT.exists() else SUPPORTED
    for distribution, version, package in NEWER:
        with unpacked_wheel(distribution, version) as found:
            if found is None:
                yield f"{distribution} {version}: skipped, there is no wheel of it here"
                continue
            site, name = found
            yield from compare(finish_reading(start_reading(venv, package, site), name), base)


def main() -> int:
    """Check the versions that can be had; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--newer", action="store_true", help="also wheels of later versions")
    parser.add_argument("--dump", metavar="PACKAGE", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.dump is not None:
        rows = [msgspec.to_builtins(row) for row in read_rows(arguments.dump)]
        packages = ("ai-dynamo", "vllm", "sglang", "tensorrt-llm", "transformers")
        versions = ", ".join(f"{package} {read_version(package)}" for package in packages)
        print(json.dumps({"versions": versions, "rows": rows}))
        return 0
    processes = [start_reading(venv) for venv in (SUPPORTED, NEXT) if venv.exists()]
    installed = [finish_reading(process) for process in processes]
    base = {row.name: row for row in installed[0].rows}
    for checked in installed:
        print("\n".join(compare(checked, base)))
    if arguments.newer:
        for line in check_newer(base):
            print(line)
    return int(any(row.fault for checked in installed for row in checked.rows))


if __name__ == "__main__":
    sys.exit(main())
