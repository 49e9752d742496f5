"""What is missing on a machine is one sentence, and the tests that need it are skipped."""

from __future__ import annotations

import unittest
from pathlib import Path

import pytest

from tests.machine import needs, require
from tools import machine, stack

ABSENT = machine.program("no-such-program", users="nothing")


@pytest.fixture
def lacking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the machine have a shell, and lack everything else."""
    parts = {"sh": machine.program("no-such-program", "sh", users="scripts")}
    monkeypatch.setattr(
        machine, "PARTS", parts | dict.fromkeys(("etcd", "libnuma", "lscpu"), ABSENT)
    )


@pytest.mark.usefixtures("lacking")
def test_what_is_missing_is_one_sentence() -> None:
    sentence = machine.describe_machine()
    assert sentence.startswith("Not on this machine: etcd (for nothing), libnuma (for nothing), ")
    assert machine.explain_missing(["sh"]) == ""


@pytest.mark.usefixtures("lacking")
def test_tests_are_skipped_with_the_part_they_need() -> None:
    mark = needs("sh", "etcd").mark
    assert (mark.args, mark.kwargs) == (
        (True,),
        {"reason": "not on this machine: etcd (for nothing)"},
    )
    assert needs("sh").mark.args == (False,)
    assert Path(require("sh")).is_file()
    with pytest.raises(pytest.skip.Exception, match="etcd"):
        require("etcd")


@pytest.mark.usefixtures("lacking")
def test_an_engine_without_its_library_does_not_start_and_skips_its_tests() -> None:
    with pytest.raises(unittest.SkipTest, match="libnuma"):
        stack.engine_environment(stack.CPU_ENGINE)
    assert stack.engine_environment(stack.SGLANG_CPU_ENGINE) == stack.CPU_ENVIRONMENT


def test_a_library_that_set_up_has_unpacked_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    assert machine.find_library("libabsent.so.1") is None
    (tmp_path / "libabsent.so.1").touch()
    assert machine.find_library("libabsent.so.1") == str(tmp_path / "libabsent.so.1")
