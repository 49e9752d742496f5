"""A call that was generated again: its attempts are recorded, inspected and replayed."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from backedge.base.limits import MAX_CALL_ATTEMPTS
from backedge.base.terminal import format_line
from backedge.cli.inspect.inspection import inspect_recording
from backedge.cli.inspect.page import page_data, render_page
from backedge.cli.inspect.summary import Chosen, summarize
from backedge.cli.inspect.terminal import render_text
from backedge.cli.inspect.trace import trace_ids
from backedge.cli.main import main
from backedge.recording.flags import RecordSettings
from backedge.recording.recorder import Recorder
from backedge.recording.recording import RecordedModel, Recording
from backedge.recording.recording_file import RecordingFileError, read_recordings
from backedge.recording.redaction import Redactor
from backedge.recording.rerun import cut, find_differences, read_sent, rerun, rerun_discarded
from backedge.recording.writer import RecordingWriter
from click.testing import CliRunner

from tests.cli.inspect.inspecting import OTHER, inspect_it, parts
from tests.postprocess.test_call_hold import GOOD, call
from tests.support import TINY_MODEL, encode, tiny_detokenizers
from tests.worker.test_regeneration import NAMES, Model, ask, written

SLIPS = (call('{"city": }'), call("{}", "get_whether"))
FAULTS = ["invalid_json", "undeclared_function"]
MODEL = RecordedModel(path=str(TINY_MODEL), engine="replay", parsers=NAMES, kind="linear")


def record(folder: Path, *, content: bool) -> Recording:
    """Return the recording of a request whose call is right at the third attempt."""
    settings = RecordSettings(folder=str(folder), content=content)
    writer = RecordingWriter(settings, "worker")
    model = Model(written(f"Look.\n{SLIPS[0]}"), [written(SLIPS[1]), written(f"{GOOD}\nDone.")])
    redactor = Redactor(tiny_detokenizers())
    model.recorder = Recorder(settings, writer, "worker", MODEL, lambda: redactor)
    ask(model)
    writer.close()
    [found] = read_recordings(next(folder.glob("*.jsonl")))
    return found


@pytest.fixture(scope="module", params=[True, False], ids=["content", "redacted"])
def recorded(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Recording]:
    folder = tmp_path_factory.mktemp("discarded")
    return folder, record(folder, content=request.param)


def read_ids(chunks: list[Any]) -> list[int]:
    return [token_id for recorded in chunks for token_id in recorded.chunk.token_ids]


def test_each_attempt_is_recorded_with_its_reason(recorded: tuple[Path, Recording]) -> None:
    _, recording = recorded
    assert len(SLIPS) == MAX_CALL_ATTEMPTS
    assert [each.reason for each in recording.discarded] == FAULTS
    texts = [read_ids(each.chunks) for each in recording.discarded]
    if recording.redacted:
        read = b"".join(tiny_detokenizers().token_bytes(each) for ids in texts for each in ids)
        assert b"tool_call>" in read
        assert not re.search(rb"whether|city|Look", read)
    else:
        assert texts == [encode(slip) for slip in SLIPS]
        assert read_ids(recording.chunks) == encode(f"Look.\n{GOOD}\nDone.")
    places = {each.after for each in recording.discarded}
    assert len(places) == 1


def test_the_answer_replays_as_it_was_sent(recorded: tuple[Path, Recording]) -> None:
    _, recording = recorded
    for how in ("recorded", "all", "1"):
        right = rerun(recording, parts(NAMES), cut(recording, how))
        assert not find_differences(recording, read_sent(recording), right, is_sent=True)
    found = rerun_discarded(recording, parts(NAMES))
    assert [each.reason for each in found] == FAULTS
    assert found[0].found == FAULTS[0]
    assert {each.token for each in found} == {found[0].token}


def test_the_command_repeats_the_attempts(recorded: tuple[Path, Recording]) -> None:
    folder, _ = recorded
    done = CliRunner().invoke(main, ["replay", str(folder)])
    assert done.exit_code == 0, done.output
    head, *lines = done.output.splitlines()
    assert ": equal" in head
    assert len(lines) == len(FAULTS)
    assert "were discarded: invalid_json (found again)" in lines[0]
    as_json = json.loads(CliRunner().invoke(main, ["replay", str(folder), "--json"]).output)
    assert [each["reason"] for each in as_json["discarded"]] == FAULTS


def test_their_tokens_are_struck_out(recorded: tuple[Path, Recording]) -> None:
    _, recording = recorded
    inspection = inspect_recording(Chosen(summarize(1, recording), recording), [parts(NAMES)])
    [choice] = inspection.choices
    steps = choice.sides[0].steps
    sizes = [len(read_ids(each.chunks)) for each in recording.discarded]
    shown = [step.discarded for step in steps if step.discarded and step.token_id is not None]
    assert shown == [FAULTS[0]] * sizes[0] + [FAULTS[1]] * sizes[1]
    assert not any(step.deltas for step in steps if step.discarded)
    assert any(step.events for step in steps if step.discarded)
    answer = [step.token_id for step in steps if not step.discarded and step.token_id is not None]
    assert answer == read_ids(recording.chunks)
    assert choice.agrees is (None if recording.redacted else True)
    assert [step.discarded for step in trace_ids(recording)[0].steps] == [
        step.discarded for step in steps
    ]
    assert [step.at_ms for step in steps] == sorted(step.at_ms for step in steps)
    lines = [format_line(line) for line in render_text(inspection)]
    assert sum("\x1b[9m" in line for line in lines) == sum(bool(step.discarded) for step in steps)
    assert f"  {sum(sizes)} tokens were discarded: their call was generated again" in lines
    data = page_data(inspection)
    assert data["discarded"] == sum(sizes)
    reasons = [data["strings"][at] for at in data["choices"][0]["discarded"][1::2]]
    assert reasons == ["", *FAULTS, ""]
    assert "line-through" in render_page(inspection)


def test_other_parsers_read_them_as_well(recorded: tuple[Path, Recording]) -> None:
    _, recording = recorded
    [choice] = inspect_it(recording, OTHER).choices  # two pairs of parsers with reasoning
    one, other = ([step.discarded for step in side.steps] for side in choice.sides)
    assert one == other


@pytest.mark.parametrize(
    ("calls", "beyond", "reason"),
    [(1, 1, "the place of discarded tokens is"), (5, 0, "the number of discarded calls is 5")],
)
def test_no_recorder_writes_such_attempts(
    recorded: tuple[Path, Recording], tmp_path: Path, calls: int, beyond: int, reason: str
) -> None:
    _, recording = recorded
    [first, *_] = recording.discarded
    other = msgspec.structs.replace(first, after=len(recording.chunks) + beyond)
    path = tmp_path / "far.jsonl"
    path.write_bytes(
        msgspec.json.encode(msgspec.structs.replace(recording, discarded=[other] * calls)) + b"\n"
    )
    with pytest.raises(RecordingFileError, match=reason):
        list(read_recordings(path))
