"""How the benchmarks summarize rounds, and print rows."""

from __future__ import annotations

import msgspec
import pytest

from benchmarks.report import compare_rounds, find_medians, format_table, rotate, show


class Sample(msgspec.Struct):
    """A round."""

    us: float
    rate: float


class Row(msgspec.Struct):
    """A row with a sample, and with a figure for each size."""

    name: str
    median: Sample
    by_size: dict[int, float | None]
    streams: bool = True


def test_each_goes_first_in_turn() -> None:
    assert [list(rotate("abc", number)) for number in (0, 1, 5)] == [
        ["a", "b", "c"],
        ["b", "c", "a"],
        ["c", "a", "b"],
    ]


def test_medians_are_those_of_each_field() -> None:
    rounds = [Sample(1.0, 9.0), Sample(2.0, 7.0), Sample(9.0, 8.0)]
    assert find_medians(rounds) == Sample(2.0, 8.0)


def test_ratios_are_those_of_the_rounds() -> None:
    """The second round was slow for both."""
    assert compare_rounds([1.0, 4.0, 3.0], [1.0, 4.0, 2.0]) == 1.0


def test_a_table_has_a_column_for_each_figure() -> None:
    lines = format_table("us", [Row("a", Sample(1.234, 12_345.6), {8: 0.5, 16: None})]).splitlines()
    assert lines[0] == "us"
    assert lines[1].split() == ["name", "us", "rate", "8", "16", "streams"]
    assert lines[2].split() == ["a", "1.23", "12346", "0.5", "-", "true"]
    assert format_table("none", []) == "none"


def test_json_has_all_tables(capsys: pytest.CaptureFixture[str]) -> None:
    show({"a": [Sample(1.0, 2.0)], "b": []}, as_json=True)
    assert msgspec.json.decode(capsys.readouterr().out) == {
        "a": [{"us": 1.0, "rate": 2.0}],
        "b": [],
    }
