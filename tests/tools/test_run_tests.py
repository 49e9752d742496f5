"""The parts of the tests, and the summary of their results."""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.conftest import LONG, MORE, THINNED
from tools import run_tests
from tools.run_tests import CHOICES, Part, describe, run

ROOT = Path(__file__).parent.parent.parent
TESTS = """
import pytest

def test_that_passes(): pass
def test_that_fails(): assert 1 == 2
@pytest.mark.skip("no GPU here")
def test_that_is_skipped(): pass
@pytest.fixture
def broken(): raise OSError("no stack")
def test_whose_fixture_raises(broken): pass
"""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a repository with the tests above, run by this environment."""
    monkeypatch.setattr(run_tests, "ROOT", tmp_path)
    monkeypatch.setattr(run_tests, "REPORTS", tmp_path)
    python = tmp_path / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    (tmp_path / "test_all.py").write_text(TESTS)
    return tmp_path


def test_a_part_is_counted_with_its_reasons_and_failures(root: Path) -> None:
    result = run(Part("units", ["test_all.py"]))
    assert result.counts == Counter(passed=1, failed=2, skipped=1)
    assert result.reasons == Counter(["no GPU here"])
    assert [failure.partition(":")[0] for failure in result.failures] == ["test_all"] * 2
    assert not result.holds
    shown = "\n".join(describe([result]))
    assert "test_all::test_that_fails: assert 1 == 2" in shown
    assert "no stack" in shown
    assert re.search(r"1\s+no GPU here", shown)


def test_a_part_whose_tests_pass_holds(root: Path) -> None:
    result = run(Part("units", ["test_all.py::test_that_passes"]))
    assert result.holds
    assert result.counts == Counter(passed=1)


@pytest.mark.parametrize("arguments", [["test_all.py", "-k", "nothing"], ["no_such_file.py"]])
def test_a_part_that_runs_no_test_fails(root: Path, arguments: list[str]) -> None:
    result = run(Part("units", arguments))
    assert not result.holds
    assert "see above" in "\n".join(describe([result]))


def test_a_part_without_its_environment_is_skipped_with_the_reason(root: Path) -> None:
    result = run(Part("next", [], ".venv-1.7"))
    assert result.holds
    assert ".venv-1.7" in "\n".join(describe([result]))


def test_a_part_that_cannot_run_on_this_machine_is_skipped(root: Path) -> None:
    result = run(Part("debian", ["-c", "exit 77"], program=["sh"], has_report=False))
    assert result.holds
    assert result.counts == Counter(skipped=1)


@pytest.mark.parametrize("name", [*MORE, *LONG, *THINNED])
def test_what_is_left_to_other_parts_exists(name: str) -> None:
    path, _, function = name.partition("[")[0].partition("::")
    assert (ROOT / path).exists()
    assert not function or re.search(rf"\b{function}\b", (ROOT / path).read_text())


def test_every_part_can_be_run_alone() -> None:
    assert {"test", "more", "long", "next", "clients", "seams", "debian"} <= set(CHOICES)
