"""A frontend that sends anything: the worker refuses with a typed error, or answers."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import AsyncGenerator
from typing import Any

import msgspec
import pytest
from backedge.base.json_types import JsonObject
from backedge.parsers.base import ParserNames, ParserRequest
from backedge.postprocess.delta_builder import aggregate_deltas
from backedge.postprocess.messages import KEY, PostprocessedChunk, read
from dynamo.llm.exceptions import InvalidArgument
from hypothesis import given
from hypothesis import strategies as st

from tests.frontend.doubles import Context
from tests.hostile.campaign import examples
from tests.hostile.junk import put_junk
from tests.parsers.families.family import TOOLS
from tests.support import encode, params
from tests.worker.test_engine_worker import ScriptedWorker

TEXT = '<think>\nso\n</think>\n<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>'
PROMPT = encode("a prompt")
PARAMS: JsonObject = msgspec.to_builtins(
    params(
        prompt_length=len(PROMPT),
        n=2,
        stop=["never"],
        logprobs=2,
        parser=ParserRequest(
            tools=list(TOOLS), tool_choice="auto", chat_template_kwargs={"enable_thinking": True}
        ),
    )
)
REQUEST: JsonObject = {
    "token_ids": PROMPT,
    "stop_conditions": {"stop_token_ids": [1], "max_tokens": 9, "min_tokens": 0},
    "sampling_options": {"n": 2, "seed": 1, "top_k": -1, "temperature": 0.5},
    "output_options": {"logprobs": 2},
    "eos_token_ids": [1],
    "model": "tiny",
}


async def generate(handler: None, request: JsonObject, context: Any) -> AsyncGenerator[Any, None]:
    """Stand for the `generate` of Dynamo's handler: both choices say the same."""
    for token_id in encode(TEXT):
        for index in range(2):
            yield {"index": index, "token_ids": [token_id], "log_probs": [-1.0]}
    for index in range(2):
        yield {"index": index, "token_ids": [], "finish_reason": "stop"}


@pytest.fixture(scope="module")
def worker() -> ScriptedWorker:
    made = ScriptedWorker(names=ParserNames("hermes", "qwen3"))
    made.build()
    return made


def answer(worker: ScriptedWorker, request: JsonObject) -> list[JsonObject]:
    async def read_all() -> list[JsonObject]:
        stream = worker.with_postprocessing(generate)(None, request, Context())
        return [chunk async for chunk in stream]

    return asyncio.run(asyncio.wait_for(read_all(), 30))


def check_honest(worker: ScriptedWorker) -> None:
    request = {**copy.deepcopy(REQUEST), "extra_args": {KEY: json.dumps(PARAMS)}}
    posts = [
        read(PostprocessedChunk, chunk["extra_args"][KEY]) for chunk in answer(worker, request)
    ]
    for index in range(2):
        deltas = [d for post in posts if post for d in post.deltas if d.index == index]
        whole = aggregate_deltas(deltas)
        assert (whole.delta.reasoning_content, whole.finish_reason) == ("\nso\n", "tool_calls")
        assert [call.function.name for call in whole.delta.tool_calls] == ["now"]


def check(worker: ScriptedWorker, request: JsonObject) -> None:
    try:
        chunks = answer(worker, request)
    except InvalidArgument:
        return
    for chunk in chunks:
        post = (chunk.get("extra_args") or {}).get(KEY)
        if post is not None:
            assert read(PostprocessedChunk, post) is not None
        msgspec.msgpack.encode(chunk)


def test_an_honest_frontend(worker: ScriptedWorker) -> None:
    check_honest(worker)


@examples(300)
@given(data=st.data(), in_params=st.integers(0, 3), in_request=st.integers(0, 2))
def test_a_rogue_frontend(
    worker: ScriptedWorker, data: st.DataObject, in_params: int, in_request: int
) -> None:
    fields, request = copy.deepcopy(PARAMS), copy.deepcopy(REQUEST)
    for _ in range(in_params):
        put_junk(fields, data.draw)
    for _ in range(in_request):
        put_junk(request, data.draw)
    text = json.dumps(fields)
    request["extra_args"] = {KEY: text[: data.draw(st.sampled_from([len(text)] * 9 + [20]))]}
    check(worker, request)
    check_honest(worker)
