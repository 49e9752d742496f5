"""The measurements of the page of `backedge inspect`, with few tokens."""

from __future__ import annotations

from pathlib import Path

import pytest
from backedge.recording.recording_file import read_recordings

from benchmarks.inspect_page import ACTIONS, Row, least, measure, write_recording
from tests.cli.browser import find_chromium


def test_the_recording_has_the_tokens(tmp_path: Path) -> None:
    options = write_recording(tmp_path, 1001)
    [recording] = read_recordings(options.file)
    assert sum(len(each.chunk.token_ids) for each in recording.chunks) == 1001
    calls = [
        call for group in recording.sent for each in group.deltas for call in each.delta.tool_calls
    ]
    assert {call.function.name for call in calls} == {"get_weather", None}


def test_the_least_of_each_figure_counts() -> None:
    rounds = [[Row("scroll", 60, 20, 9)], [Row("scroll", 0, 30, 8)]]
    assert least(rounds) == [Row("scroll", 0, 20, 8)]


def test_every_action_is_done() -> None:
    executable = find_chromium()
    if executable is None:
        pytest.skip("no Chromium here; tools/setup installs it where it may")
    report = measure(executable, 400, 3, 1)
    assert [row.action for row in report.rows] == list(ACTIONS)
    assert report.page_mib > 0
