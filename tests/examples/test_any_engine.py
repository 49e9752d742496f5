"""The example of an engine behind Dynamo's own interface."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
from types import ModuleType
from typing import Any

from backedge.base.json_types import JsonObject
from backedge.postprocess.messages import KEY, PostprocessedChunk, WorkerCard, encode, read

from tests.frontend.doubles import Context
from tests.support import TINY_MODEL, params
from tools.stack import ROOT

REQUEST = {
    "token_ids": [7, 8],
    "stop_conditions": {"max_tokens": 5},
    "extra_args": {KEY: encode(params(prompt_length=2))},
}


class Traced(Context):
    """Also has what the sample engine's spans need."""

    def start_span(self, *_: object, **__: object) -> object:
        return contextlib.nullcontext()


def load_example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("any_engine", ROOT / "examples/any_engine.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


async def answer() -> tuple[JsonObject, list[JsonObject]]:
    argv = ["--model-name", str(TINY_MODEL), "--delay", "0", "--tool-call-parser", "hermes"]
    engine: Any
    engine, config = await load_example().build(argv)
    registered = await engine.start(1)
    assert config.model_name == str(TINY_MODEL)
    chunks = [chunk async for chunk in engine.generate(dict(REQUEST), Traced())]
    await engine.cleanup()
    return registered.runtime_data, chunks


def test_its_answers_are_post_processed() -> None:
    data, chunks = asyncio.run(answer())
    card = read(WorkerCard, data[KEY])
    assert card is not None
    assert (card.engine, card.tool_call_parser) == ("SampleLLMEngine", "hermes")
    assert sum(len(chunk["token_ids"]) for chunk in chunks) == 5
    processed = [read(PostprocessedChunk, chunk["extra_args"][KEY]) for chunk in chunks]
    text = "".join(each.delta.content or "" for one in processed if one for each in one.deltas)
    assert text
    assert chunks[-1]["finish_reason"] == "length"
