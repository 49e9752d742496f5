"""The replay back end needs what `pip install '.[light]'` brings: no torch, no engine."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

from tests.offline.batch_files import build_command, read_answers, write_rows
from tools.stack import ROOT

# Import names that differ from the distribution's, and what distributions bring themselves.
IMPORTS = {"pyzmq": "zmq", "pyyaml": "yaml"}
BROUGHT = {"backedge", "markupsafe", "pydantic_core", "annotated_types", "typing_inspection"}
# Runs the command where nothing but the standard library and `sys.argv[1]` can be imported.
PROGRAM = """
import runpy, sys

allowed = {*sys.argv[1].split(","), *sys.stdlib_module_names}

class Refuse:
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top not in allowed and not top.startswith("__editable__"):
            raise ModuleNotFoundError(f"{top} is not in the extra [light]", name=top)

for name in [name for name in sys.modules if name.partition(".")[0] not in allowed]:
    del sys.modules[name]
sys.meta_path.insert(0, Refuse())
del sys.argv[:2]
runpy.run_module("backedge.offline", run_name="__main__", alter_sys=True)
"""


def light_modules() -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["light"]]
    names = [re.split(r"[\[<>=~ ]", name)[0] for name in wanted]
    return {IMPORTS.get(name, name.replace("-", "_")) for name in names} | BROUGHT


def test_a_batch_needs_no_more_than_the_light_extra(tmp_path: Path) -> None:
    source, output = write_rows(tmp_path / "in.jsonl", 22), tmp_path / "out.jsonl"
    [_, _, *arguments] = build_command(source, output)
    command = [sys.executable, "-c", PROGRAM, ",".join(light_modules()), *arguments]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    assert len(read_answers(output)) == 22


def test_what_is_not_in_the_extra_is_refused(tmp_path: Path) -> None:
    source, output = write_rows(tmp_path / "in.jsonl", 1), tmp_path / "out.jsonl"
    [_, _, *arguments] = build_command(source, output, "--plugin", "torch:nn")
    command = [sys.executable, "-c", PROGRAM, ",".join(light_modules()), *arguments]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert process.returncode == 2
    assert "torch is not in the extra [light]" in process.stderr
