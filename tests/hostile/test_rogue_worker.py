"""A worker that sends anything: the answer ends with a typed error, or is well-formed."""

from __future__ import annotations

import asyncio
import copy
import json
from typing import Any

import pytest
from backedge.base.json_types import JsonObject
from backedge.frontend.response.openai_chunks import OpenAIChunkWriter
from backedge.frontend.response.worker_stream import StreamReader, WorkerError
from backedge.postprocess import Chunk, PostprocessedChunk, Postprocessor
from backedge.postprocess.messages import KEY, ChoiceDelta, Delta, encode
from dynamo.llm.exceptions import HttpError
from hypothesis import given
from hypothesis import strategies as st

from tests.frontend.doubles import Context, Engine
from tests.hostile.campaign import examples
from tests.hostile.junk import JUNK, put_junk
from tests.support import encode as tokens
from tests.support import params, tiny_detokenizers

# As Dynamo 1.6.1 gives a worker's `{"index": 0, "token_ids": [64]}` to the frontend.
ON_THE_WIRE: JsonObject = {
    "tokens": None,
    "text": None,
    "output_type": "text",
    "cum_log_probs": None,
    "log_probs": None,
    "top_logprobs": None,
    "finish_reason": None,
}
TEXT = "one, two, three"


def honest(*, processed: bool, n: int) -> list[JsonObject]:
    """Return the outputs of an honest worker. processed: it post-processes."""
    post, outputs = Postprocessor(params(n=n), tiny_detokenizers()), []
    for token_id in [*tokens(TEXT), None]:
        for index in range(n):
            ids, reason = ([], "stop") if token_id is None else ([token_id], None)
            output = {**ON_THE_WIRE, "index": index, "token_ids": ids, "finish_reason": reason}
            deltas = post.feed(Chunk(index=index, token_ids=ids, finish_reason=reason))
            if processed:
                output["extra_args"] = {KEY: encode(PostprocessedChunk(deltas=deltas))}
            outputs.append(output)
    return outputs


def read(outputs: list[Any], n: int) -> list[ChoiceDelta]:
    """Return what the client gets, as the HTTP layer gets it. Raises `WorkerError`, HttpError."""
    request = params(n=n, include_usage=True)
    writer = OpenAIChunkWriter(request, {}, [])
    deltas: list[ChoiceDelta] = []

    async def run() -> None:
        reader = StreamReader(request, lambda: Postprocessor(request, tiny_detokenizers()))
        async for chunk, processed in reader.read(Engine(outputs), {}, Context()):
            deltas.extend(processed.deltas)
            for written in writer.write(chunk, processed):
                json.dumps(written, allow_nan=False).encode()

    asyncio.run(run())
    return deltas


def check(outputs: list[Any], n: int) -> None:
    try:
        deltas = read(outputs, n)
    except (WorkerError, HttpError):
        return
    finishes = [delta.index for delta in deltas if delta.finish_reason]
    assert sorted(finishes) == [*range(n)], "each choice finishes once"


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("processed", [True, False])
def test_an_honest_worker(processed: bool, n: int) -> None:
    deltas = read(honest(processed=processed, n=n), n)
    for index in range(n):
        mine = [delta.delta.content or "" for delta in deltas if delta.index == index]
        assert "".join(mine) == TEXT


KINDS = ["field", "message", "text", "drop", "twice", "swap", "cut", "insert", "other kind"]


def find_text(output: JsonObject) -> str:
    """Return what the worker has made of a chunk, as it travels; empty if it is spoilt already."""
    extra_args = output.get("extra_args")
    text = extra_args.get(KEY) if isinstance(extra_args, dict) else None
    return text if isinstance(text, str) else ""


def is_message(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


def spoil(outputs: list[Any], kind: str, at: int, draw: Any) -> None:
    """Change one of the outputs."""
    output = outputs[at]
    if kind == "field":
        put_junk(output, draw)
    elif kind == "message" and is_message(text := find_text(output)):
        message = json.loads(text)
        put_junk(message, draw)
        output["extra_args"][KEY] = json.dumps(message)
    elif kind == "text" and (text := find_text(output)):
        output["extra_args"][KEY] = text[: draw(st.integers(0, len(text)))]
    elif kind == "drop":
        del outputs[at]
    elif kind == "twice":
        outputs.insert(at, copy.deepcopy(output))
    elif kind == "swap":
        outputs.append(outputs.pop(at))
    elif kind == "cut":
        del outputs[at + 1 :]
    elif kind == "insert":
        outputs.insert(at, draw(JUNK))
    else:
        output.pop("extra_args", None)


@examples(300)
@given(
    st.data(),
    st.booleans(),
    st.integers(1, 3),
    st.lists(st.sampled_from(KINDS), min_size=1, max_size=3),
)
def test_a_rogue_worker(data: st.DataObject, processed: bool, n: int, kinds: list[str]) -> None:
    outputs: list[Any] = honest(processed=processed, n=n)
    for kind in kinds:
        if outputs:
            at = data.draw(st.integers(0, len(outputs) - 1))
            if isinstance(outputs[at], dict):
                spoil(outputs, kind, at, data.draw)
    check(outputs, n)


def test_an_oversized_chunk_passes_as_it_is() -> None:
    """A client may ask for an answer of any length; Dynamo bounds its own messages."""
    content = "x" * 5_000_000
    post = PostprocessedChunk(deltas=[ChoiceDelta(0, Delta(content=content), "stop")])
    output = {**ON_THE_WIRE, "token_ids": [1], "extra_args": {KEY: encode(post)}}
    [delta] = read([output], 1)
    assert delta.delta.content == content
    with pytest.raises(WorkerError):
        read([{**output, "extra_args": {KEY: encode(post)[:-1]}}], 1)


@pytest.mark.parametrize("depth", [10, 100_000])
def test_a_nested_chunk_is_refused(depth: int) -> None:
    nested = '{"deltas":' + "[" * depth + "]" * depth + "}"
    with pytest.raises(WorkerError):
        read([{**ON_THE_WIRE, "token_ids": [1], "extra_args": {KEY: nested}}], 1)
