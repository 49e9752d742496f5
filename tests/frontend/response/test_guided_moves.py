"""A request with a grammar goes on at another worker where the grammar may begin anew."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from backedge.base.json_types import JsonObject
from backedge.frontend.grammar_start import GrammarStart
from backedge.frontend.response.guided_moves import GuidedMoves
from backedge.frontend.response.worker_stream import StreamReader, WorkerError
from backedge.guided.call_policy import ReasoningTags
from backedge.parsers.base import ParserNames, ParserRequest
from backedge.parsers.json_rest import build_rest
from backedge.parsers.parser_lookup import linear_parsers
from backedge.postprocess import Postprocessor
from backedge.postprocess.delta_builder import aggregate_deltas
from backedge.tokenization.detokenizer import read_vocabulary

from tests.frontend.doubles import Annotated, Context
from tests.support import encode, params, tiny_detokenizers, tiny_tokenizer

TAG: JsonObject = {
    "structural_tag": {"format": {"type": "triggered_tags", "triggers": ["<tool_call>"]}}
}
JSON: JsonObject = {"json": {"type": "object"}}
TAGS = ReasoningTags(("<think>",), ("</think>",), decided=False)
THOUGHT, TEXT = "<think>\nHm.\n</think>\n\n", "Yes, I do."
CALL = '<tool_call>\n{"name": "get_time", "arguments": {}}\n</tool_call>'
TOOLS = [{"type": "function", "function": {"name": "get_time"}}]
PROMPT = encode("<|im_start|>user\nHi.<|im_end|>\n<|im_start|>assistant\n")
GONE = "Unavailable: the worker is gone"


class Workers:
    """Two workers; the first dies after `lost` of its tokens."""

    def __init__(self, token_ids: Sequence[int], lost: int, error: str) -> None:
        self._token_ids = token_ids
        self._lost = lost
        self._error = error
        self.requests: list[JsonObject] = []

    async def generate(self, request: JsonObject, *, context: object) -> AsyncIterator[Annotated]:
        self.requests.append(request)
        return self._stream(request)

    async def _stream(self, request: JsonObject) -> AsyncIterator[Annotated]:
        done = len(request["token_ids"]) - len(PROMPT)
        dies = len(self.requests) == 1
        for position in range(done, self._lost if dies else len(self._token_ids)):
            output: JsonObject = {"index": 0, "token_ids": [self._token_ids[position]]}
            if position == len(self._token_ids) - 1:
                output["finish_reason"] = "stop"
            yield Annotated(output)
        if dies:
            yield Annotated(error=self._error)


def read(
    output: str,
    lost: int,
    grammar: JsonObject,
    *,
    stream: bool,
    tags: ReasoningTags | None = TAGS,
    error: str = GONE,
    limit: int = 3,
) -> tuple[Any, list[JsonObject]]:
    """Return the whole answer, and the requests that were sent."""
    parsers = linear_parsers(ParserNames("hermes", "qwen3"), read_vocabulary(tiny_tokenizer()))
    request = params(stream=stream, parser=ParserRequest(tools=TOOLS), prompt_length=len(PROMPT))
    workers = Workers(encode(output + "<|im_end|>"), lost, error)

    def make() -> Postprocessor:
        return Postprocessor(request, tiny_detokenizers(), parsers, prompt_token_ids=PROMPT)

    async def run() -> tuple[Any, list[JsonObject]]:
        reader = StreamReader(request, make)
        start = GrammarStart(tags, is_plain=True, load_parsers=lambda: parsers)
        factories = tiny_detokenizers(), parsers
        moves = GuidedMoves(workers, limit, reader, request, grammar, start, lambda: factories)
        first: JsonObject = {
            "token_ids": PROMPT,
            "stop_conditions": {"max_tokens": 100},
            "sampling_options": {"guided_decoding": grammar},
        }
        deltas = [
            delta
            async for _, processed in reader.read(moves, first, Context())
            for delta in processed.deltas
        ]
        return aggregate_deltas(deltas), workers.requests

    return asyncio.run(run())


def count(text: str) -> int:
    return len(encode(text))


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("output", "before", "grammar"),
    [
        (THOUGHT + TEXT, "<think>\nHm", JSON),
        (THOUGHT + CALL, "<think>\nHm", TAG),
        (THOUGHT + TEXT + CALL, THOUGHT + "Yes,", TAG),
        (THOUGHT + CALL + "\n" + CALL, THOUGHT + CALL, TAG),
    ],
)
def test_an_answer_goes_on_where_its_grammar_may_begin(
    output: str, before: str, grammar: JsonObject, stream: bool
) -> None:
    whole, _ = read(output, 1000, grammar, stream=stream)
    lost = count(before)
    found, (_, second) = read(output, lost, grammar, stream=stream)
    assert found == whole
    assert second["token_ids"] == [*PROMPT, *encode(output)[:lost]]
    assert second["stop_conditions"]["max_tokens"] == 100 - lost
    begun = second["sampling_options"]["guided_decoding"]
    if grammar is TAG:
        assert begun == TAG
    else:
        # The thought is open, so its grammar has no beginning.
        assert begun["structural_tag"]["format"]["elements"][0]["elements"][0]["begin"] == ""


@pytest.mark.parametrize(
    ("output", "before", "grammar"),
    [
        (THOUGHT + TEXT, THOUGHT + "Yes,", JSON),
        (THOUGHT + CALL, THOUGHT + "<tool_call>\n{", TAG),
        (THOUGHT + CALL, "", TAG),
    ],
)
def test_an_answer_begins_anew_while_the_client_has_nothing(
    output: str, before: str, grammar: JsonObject
) -> None:
    whole, _ = read(output, 1000, grammar, stream=False)
    found, requests = read(output, count(before), grammar, stream=False)
    assert found == whole
    assert requests[1] == requests[0]


@pytest.mark.parametrize("before", [THOUGHT, THOUGHT + '{"a": "Yes', THOUGHT + '{"a": "Yes"}'])
@pytest.mark.parametrize("tags", [TAGS, None])
def test_json_goes_on_under_the_grammar_of_its_rest(
    before: str, tags: ReasoningTags | None
) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    output = THOUGHT + '{"a": "Yes"}'
    whole, _ = read(output, 1000, {"json": schema}, stream=True)
    found, (_, second) = read(output, count(before), {"json": schema}, stream=True, tags=tags)
    assert found == whole
    rest = build_rest(before.removeprefix(THOUGHT), schema)
    tag = {"structural_tag": {"type": "structural_tag", "format": rest}}
    assert second["sampling_options"]["guided_decoding"] == tag


def test_a_stream_within_its_grammar_is_lost() -> None:
    with pytest.raises(WorkerError, match="gone"):
        read(THOUGHT + TEXT, count(THOUGHT + "Yes,"), JSON, stream=True)
    with pytest.raises(WorkerError, match="gone"):
        read(THOUGHT + CALL, count(THOUGHT + CALL) - 3, TAG, stream=True)


def test_an_engine_that_waits_for_the_reasoning_is_told_of_it() -> None:
    _, (_, second) = read(THOUGHT + TEXT, count("<think>\nHm"), JSON, stream=True, tags=None)
    assert second["require_reasoning"] is True
    assert second["sampling_options"]["guided_decoding"] == JSON


@pytest.mark.parametrize(
    ("error", "limit"), [("out of memory", 3), ("CapacityExhausted: full", 3), (GONE, 0)]
)
def test_other_errors_end_the_answer(error: str, limit: int) -> None:
    with pytest.raises(WorkerError):
        read(TEXT, 0, JSON, stream=True, error=error, limit=limit)
