"""A case shows the fault of its recording, and no other one."""

from __future__ import annotations

import msgspec
import pytest
from backedge.base.errors import SetupError
from backedge.cli.recorded_model import LoadedModel, ParserChoice
from backedge.cli.replay.minimal_case import Minimal, NamedParts, minimize_request
from backedge.parsers.base import ParserNames
from backedge.postprocess import Chunk
from backedge.recording.case import run_case
from backedge.recording.recording import Recording

from tests.cli.replay.recordings import call
from tests.recording.test_rerun import record
from tests.support import encode

NAMES = ParserNames("hermes", None)


def shrink(recording: Recording, left: ParserChoice, right: ParserChoice) -> Minimal:
    model = LoadedModel(recording.model, None)
    sides = [NamedParts(*model.build(choice)) for choice in (left, right)]
    names = right.names(recording.model)
    return minimize_request(recording, model, sides[0], sides[1], names)


def test_a_call_stays_a_whole_call() -> None:
    found = shrink(call(), ParserChoice(tool_call=""), ParserChoice())
    (shown,) = found.case.expect.tool_calls
    assert shown.name
    msgspec.json.decode(shown.arguments)
    assert found.case.expect.finish_reason == "tool_calls"
    assert found.case.instead is not None
    assert found.case.instead.tool_calls == []
    assert len(found.token_ids) < found.before
    assert run_case(found.case) == found.case.expect


def test_the_choice_that_differs_becomes_the_first() -> None:
    text, calls = encode("Hi you there"), encode('<tool_call>{"name": "f"}</tool_call>')
    recording = record(
        [
            Chunk(index=0, token_ids=text, finish_reason="stop"),
            Chunk(index=1, token_ids=calls),
            Chunk(index=1, finish_reason="stop"),
            Chunk(index=1, token_ids=text),
        ],
        n=2,
    )
    found = shrink(recording, ParserChoice(tool_call=""), ParserChoice())
    assert "".join(found.case.tokens).startswith("<tool_call>")
    assert run_case(found.case) == found.case.expect


def test_without_a_difference_there_is_no_case() -> None:
    with pytest.raises(SetupError, match="nothing to minimize"):
        shrink(call(), ParserChoice(), ParserChoice(kind="linear"))
