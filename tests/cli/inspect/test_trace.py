"""A recording traced token by token gives what the whole gives, with states and held-back text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from backedge.cli.inspect import trace as trace_module
from backedge.cli.inspect.trace import Step, TraceError, trace, trace_ids
from backedge.parsers.base import ParserFactory, ParserRequest, StreamParser
from backedge.parsers.events import Event, ToolCallStarted
from backedge.parsers.passthrough import PassthroughParser
from backedge.postprocess import Chunk
from backedge.recording.rerun import Parts
from backedge.tokenization.detokenizer import Detokenizer, DetokenizerOptions
from typing_extensions import override

from tests.cli.inspect.inspecting import parts, trace_recording
from tests.cli.recorded import record_chunks, record_text, record_transcript
from tests.support import (
    TRANSCRIPTS,
    encode,
    message,
    parser_request,
    run,
    tiny_detokenizers,
)


def steps_of(name: str, every: int = 3) -> list[Step]:
    return trace_recording(record_transcript(name, every))[0].steps


@pytest.mark.parametrize("name", sorted(TRANSCRIPTS))
@pytest.mark.parametrize("every", [1, 5, 1000])
def test_gives_what_the_whole_gives(name: str, every: int) -> None:
    recording = record_transcript(name, every)
    [choice] = trace_recording(recording)
    whole = run(
        recording.params,
        [each.chunk for each in recording.chunks],
        parts().parsers,
        recording.prompt.token_ids or (),
    )
    assert choice.whole is not None
    assert message(choice.whole) == message(whole)
    token_ids = [token for each in recording.chunks for token in each.chunk.token_ids]
    assert [step.token_id for step in choice.steps] == token_ids


def test_names_the_states() -> None:
    states = list(dict.fromkeys(step.state for step in steps_of("reasoning_call")))
    assert states == ["REASONING", "START", "JSON_CALLS", "CONTENT"]


def test_events_are_those_of_the_parser() -> None:
    events = [event for step in steps_of("reasoning_call") for event in step.events]
    assert any(isinstance(event, ToolCallStarted) for event in events)


def test_chunks_and_times_are_as_recorded() -> None:
    steps = steps_of("reasoning_call", every=3)
    assert [step.chunk for step in steps[:7]] == [0, 0, 0, 1, 1, 1, 2]
    assert [step.at_ms for step in steps[:4]] == [10.0, 10.0, 10.0, 20.0]


# A text, what its request has, and why a part of it waits at some token.
HELD: list[tuple[str, dict[str, Any], str]] = [
    ("  <tool_call>", {}, "white space"),
    ('<tool_call>{"na', {}, "possible call"),
    ("x\N{SNOWMAN}", {}, "partial character"),
    ("</think>one EN two", {"stop": ["END"]}, "possible stop string"),
    ("</think>one \n\n two", {}, "white space"),
]


@pytest.mark.parametrize(("text", "fields", "why"), HELD)
def test_what_is_held_back_has_its_reason(text: str, fields: dict[str, Any], why: str) -> None:
    request = parser_request(TRANSCRIPTS["reasoning_call"])
    recording = record_text(text, 1, "length", parser=request, **fields)
    steps = trace_recording(recording)[0].steps
    assert why in {held.why for step in steps for held in step.held}
    assert steps[-1].held == []


def test_a_stop_string_ends_and_the_rest_is_ignored() -> None:
    steps = trace_recording(record_text("</think>one END two", 1, stop=["END"]))
    stops = [step.stop for step in steps[0].steps if not step.ignored]
    assert stops[-1] == "matched"
    assert set(stops[1:-1]) == {"searched"}
    assert steps[0].steps[-1].ignored


def test_reasoning_and_the_first_tokens_are_not_ended_by_stop_strings() -> None:
    text = "<think>END</think>one"
    count = len(encode(text)) - 1
    recording = record_text(text, 1, stop=["END"], min_tokens=count)
    stops = [step.stop for step in trace_recording(recording)[0].steps]
    assert stops[1] == "reasoning"
    assert {"min_tokens", "searched"} <= set(stops)
    assert "matched" not in stops


def test_each_choice_has_its_own_steps() -> None:
    ids = encode("one two")
    chunks = [
        Chunk(index=index, token_ids=ids, finish_reason="stop" if index else "length")
        for index in (0, 1)
    ]
    traced = trace_recording(record_chunks(chunks, n=2))
    assert [len(choice.steps) for choice in traced] == [len(ids), len(ids)]
    reasons = [choice.whole.finish_reason for choice in traced if choice.whole]
    assert reasons == ["length", "stop"]


def test_an_end_without_a_token_is_a_step() -> None:
    recording = record_chunks([Chunk(token_ids=encode("a")), Chunk(finish_reason="length")])
    assert trace_recording(recording)[0].steps[-1].token_id is None


def test_tokens_beyond_the_bound_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_module, "MAX_SHOWN_TOKENS", 4)
    recording = record_text("one two three", 1)
    for traced in (trace_recording(recording), trace_ids(recording)):
        [choice] = traced
        assert len(choice.steps) == 4
        assert choice.left_out == len(encode("one two three")) - 4


def test_ids_alone_where_there_is_no_tokenizer() -> None:
    [choice] = trace_ids(record_text("one two", 1))
    assert [step.token_id for step in choice.steps] == encode("one two")
    assert {(step.text, step.state) for step in choice.steps} == {("", "")}


class OtherTokenizer:
    """Detokenizers of a tokenizer that raises for ids it does not have."""

    def __call__(self, options: DetokenizerOptions, prompt_token_ids: Sequence[int]) -> Detokenizer:
        return tiny_detokenizers()(options, prompt_token_ids)

    def token_bytes(self, token_id: int) -> bytes:
        raise IndexError(token_id)

    def is_special(self, token_id: int) -> bool:
        return False


def test_a_token_of_another_tokenizer_is_named() -> None:
    other = msgspec.structs.replace(parts(), detokenizers=OtherTokenizer())
    with pytest.raises(TraceError, match=rf"{encode('a')[0]}.*IndexError.*--model"):
        trace(record_text("a"), other)


class Raising(PassthroughParser):
    @override
    def feed(self, text: str, token_ids: Sequence[int] = ()) -> list[Event]:
        if "b" in text:
            raise KeyError(text)
        return super().feed(text)


class RaisingParsers(ParserFactory):
    name = "raising"

    @override
    def shows_special_tokens(self, request: ParserRequest) -> bool:
        return False

    @override
    def __call__(self, request: ParserRequest, prompt_token_ids: Sequence[int]) -> StreamParser:
        return Raising()


def test_a_parser_that_fails_is_reported_and_the_rest_is_raw_text() -> None:
    raising = Parts(parts().detokenizers, RaisingParsers(), "native")
    [choice] = trace(record_text("a!b!c", 1, "length"), raising)
    assert len(choice.failures) == 1
    assert "KeyError" in choice.failures[0]
    assert [choice.steps[0].state, choice.steps[-1].state] == ["answer", "raw text"]
    assert choice.whole is not None
    assert choice.whole.delta.content == "a!b!c"
