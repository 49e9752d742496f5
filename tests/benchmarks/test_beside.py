"""The parsers of two checkouts, measured in processes of their own."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from benchmarks import beside
from benchmarks.beside import ROOT, Case, Checkout, measure

PIECES: list[tuple[str, list[int]]] = [("one ", [0]), ("two", [0])]
CASE = Case("content", ("hermes", "qwen3"), [], {}, PIECES)


def test_each_case_has_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beside, "STARTS", 1)
    [row] = measure([CASE], ROOT / "parsers" / "..", rounds=2)
    assert (row.case, row.tokens) == ("content", 2)
    assert row.us > 0
    assert row.ratio > 0
    assert row.fastest > 0


def test_a_checkout_without_parsers_is_an_error(tmp_path: Path) -> None:
    with ExitStack() as stack, pytest.raises(RuntimeError, match="has ended"):
        Checkout(tmp_path, stack).measure(CASE)
