"""The benchmark of recording records what it measures."""

from __future__ import annotations

import json

import pytest

from benchmarks.recording import OFF, ON, WITH_CONTENT, main, measure


def test_all_ways_are_measured() -> None:
    report = measure(1, 600)
    assert [row.recording for row in report.rows] == [OFF, ON, WITH_CONTENT]
    assert all(row.loop_us > 0 for row in report.rows)


@pytest.mark.parametrize("flags", [[], ["--json"]], ids=["table", "json"])
def test_prints(flags: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    main([*flags, "--rounds", "1", "--tokens", "600"])
    printed = capsys.readouterr().out
    if flags:
        assert json.loads(printed)["rows"][0]["recording"] == OFF
    else:
        assert "recording adds" in printed
