"""What is shown of a request: both sides, what was sent and when, and whether it is the same."""

from __future__ import annotations

import msgspec
import pytest
from backedge.cli.inspect.inspection import compare, inspect_recording
from backedge.cli.inspect.summary import Chosen, summarize
from backedge.cli.inspect.trace import ChoiceTrace, Step
from backedge.postprocess.messages import ChoiceDelta, Delta
from backedge.recording.recording import Recording

from tests.cli.inspect.inspecting import OTHER, inspect_it
from tests.cli.recorded import record_transcript
from tests.support import TRANSCRIPTS


@pytest.mark.parametrize("name", sorted(TRANSCRIPTS))
def test_the_recorded_parsers_make_what_was_sent(name: str) -> None:
    [choice] = inspect_it(record_transcript(name)).choices
    assert choice.agrees
    assert choice.difference is None


def test_another_parser_differs_at_the_call() -> None:
    [choice] = inspect_it(record_transcript("reasoning_call"), OTHER).choices
    assert choice.difference is not None
    step = choice.sides[0].steps[choice.difference.step]
    assert [delta.delta.tool_calls[0].function.name for delta in step.deltas] == ["get_weather"]
    assert choice.difference.left == 'call 0 "get_weather"'
    assert choice.difference.right.startswith('content "\n\n<tool_call>')


def traced(*deltas: ChoiceDelta) -> ChoiceTrace:
    steps = [Step(token_id=1, chunk=0, at_ms=0.0, deltas=[delta]) for delta in deltas]
    return ChoiceTrace(parsers="", kind="", index=0, steps=steps)


def content(text: str) -> ChoiceDelta:
    return ChoiceDelta(0, Delta(content=text))


STOP = ChoiceDelta(0, Delta(), "stop")
EMPTY = ChoiceDelta(0)
# What each side gives token by token, and the difference.
DIFFERENCES = [
    ([content("a"), content("b")], [EMPTY, content("ab")], None),
    ([content("a"), content("b")], [content("a"), content("c")], (1, 'content "b"', 'content "c"')),
    ([content("ab"), STOP], [content("a"), STOP], (0, 'content "b"', "no more content")),
    ([content("a"), STOP], [content("a"), EMPTY], (1, 'finish "stop"', "nothing more")),
]


@pytest.mark.parametrize(("left", "right", "expected"), DIFFERENCES)
def test_a_difference_is_told_in_words(
    left: list[ChoiceDelta], right: list[ChoiceDelta], expected: tuple[int, str, str] | None
) -> None:
    found = compare(traced(*left), traced(*right))
    assert (found and (found.step, found.left, found.right)) == expected


def test_deltas_are_placed_behind_the_tokens_that_had_come() -> None:
    recording = record_transcript("reasoning_call", 3)
    [choice] = inspect_it(recording).choices
    times = [step.at_ms for step in choice.sides[0].steps]
    for group in choice.sent:
        assert times[group.steps - 1] <= group.at_ms
        assert group.steps == len(times) or times[group.steps] > group.at_ms


def change(recording: Recording, **fields: object) -> Recording:
    return msgspec.structs.replace(recording, **fields)


def test_deltas_that_are_not_the_parsers_are_noticed() -> None:
    recording = record_transcript("reasoning_call")
    [choice] = inspect_it(change(recording, sent=recording.sent[1:])).choices
    assert choice.agrees is False


@pytest.mark.parametrize(
    "fields", [{"redacted": True}, {"dropped": 3}, {"outcome": "cancelled"}, {"sent": []}]
)
def test_nobody_can_say_of_what_is_incomplete(fields: dict[str, object]) -> None:
    [choice] = inspect_it(change(record_transcript("reasoning_call"), **fields)).choices
    assert choice.agrees is None


def test_without_a_tokenizer_there_are_ids_and_a_note() -> None:
    recording = record_transcript("reasoning_call")
    inspection = inspect_recording(Chosen(summarize(1, recording), recording), [], "no tokenizer")
    assert inspection.note == "no tokenizer"
    assert {step.state for step in inspection.choices[0].sides[0].steps} == {""}
