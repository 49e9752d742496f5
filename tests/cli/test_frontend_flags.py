"""`backedge frontend-flags`: writes one line for the start of Python, and takes it away."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest
from backedge.cli import frontend_flags
from backedge.cli.main import main
from click.testing import CliRunner


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return where the line goes: the packages' folder is an empty one."""
    monkeypatch.setattr(sysconfig, "get_path", lambda _: str(tmp_path))
    return tmp_path / frontend_flags.FILE


def run(*flags: str) -> str:
    result = CliRunner().invoke(main, ["frontend-flags", *flags])
    assert result.exit_code == 0, result.output
    return result.output


def test_the_command_tells_where_the_line_is(file: Path) -> None:
    absent = f"dynamo.frontend does not know the flags: there is no {file}\n"
    present = f"dynamo.frontend knows the flags, by {file}\n"
    assert run() == absent
    assert run("--install") == run("--install") == run() == present
    assert file.read_text(encoding="utf-8") == frontend_flags.LINE
    assert run("--remove") == run("--remove") == run() == absent
    assert list(file.parent.iterdir()) == []


def refuse(*_: object, **__: object) -> None:
    raise PermissionError(13, "Permission denied")


@pytest.mark.parametrize(("flag", "method"), [("--install", "write_text"), ("--remove", "unlink")])
def test_a_folder_that_cannot_be_written_is_one_sentence(
    flag: str, method: str, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, method, refuse)
    result = CliRunner().invoke(main, ["frontend-flags", flag])
    assert result.exit_code == 2
    assert result.stderr == (
        f"backedge frontend-flags: {file} cannot be changed (Permission denied); "
        "`python -m backedge.frontend` needs no such file.\n"
    )


def test_the_two_flags_contradict_each_other() -> None:
    result = CliRunner().invoke(main, ["frontend-flags", "--install", "--remove"])
    assert result.exit_code == 2
    assert "contradict" in result.stderr


def test_the_real_folder_is_one_whose_lines_python_reads() -> None:
    assert str(frontend_flags.find_file().parent) in sys.path


@pytest.fixture
def start(tmp_path: Path) -> Callable[..., str]:
    """Return our modules that a process has after it has read the line."""
    (tmp_path / frontend_flags.FILE).write_text(frontend_flags.LINE, encoding="utf-8")
    program = (
        f"import site; site.addsitedir({str(tmp_path)!r}); import sys; "
        "print(sorted(name for name in sys.modules if name.startswith('backedge')))"
    )

    def start(*arguments: str) -> str:
        command = [sys.executable, "-c", program, *arguments]
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        ).stdout

    return start


def test_other_processes_import_nothing(start: Callable[..., str]) -> None:
    assert start("--vllm-processing") == "[]\n"
    assert "backedge.frontend.handover" in start("dynamo.frontend")
