"""The example of TokenSpeed: Dynamo's own engine for it, over a stand-in for the package.

TokenSpeed 0.1 needs a GPU. The stand-in has those names of its release that Dynamo's engine uses,
and answers with an example transcript in TokenSpeed's form of outputs.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from types import ModuleType, SimpleNamespace
from typing import Any, Self

import pytest
from backedge.base.json_types import JsonObject
from backedge.parsers.base import ParserRequest
from backedge.postprocess.delta_builder import aggregate_deltas
from backedge.postprocess.messages import KEY, PostprocessedChunk, WorkerCard, encode, read

from tests.frontend.doubles import Context
from tests.support import TINY_MODEL, TRANSCRIPTS, Transcript, params
from tests.support import encode as tokens
from tools.stack import ROOT

CALL, LETTERS = TRANSCRIPTS["reasoning_call"], TRANSCRIPTS["stop_string"]


@dataclass
class ServerArgs:
    model: str
    served_model_name: str | None = None
    stream_output: bool = False
    prefix_granularity: int = 64
    disaggregation_mode: str = "null"
    kv_events_config: str | None = None

    @staticmethod
    def add_cli_args(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("model")

    @classmethod
    def from_cli_args(cls, flags: argparse.Namespace) -> Self:
        return cls(flags.model)


@dataclass
class GenerateReqInput:
    input_ids: list[int]
    sampling_params: JsonObject
    stream: bool
    rid: str | None = None


class Manager:
    """Generates a transcript, two tokens at a time."""

    def __init__(self) -> None:
        self.aborted: list[str] = []
        self.transcript = CALL

    async def generate_request(self, asked: GenerateReqInput) -> AsyncIterator[JsonObject]:
        token_ids = tokens(self.transcript["output"])
        for end in range(2, len(token_ids) + 2, 2):
            done = end >= len(token_ids)
            meta = {
                "finish_reason": {"type": "stop"} if done else None,
                "prompt_tokens": len(asked.input_ids),
                "completion_tokens": min(end, len(token_ids)),
            }
            yield {"output_ids": token_ids[end - 2 : end], "meta_info": meta}
            await asyncio.sleep(0)

    def abort_request(self, rid: str) -> None:
        self.aborted.append(rid)


class Engine:
    def __init__(self, server_args: ServerArgs) -> None:
        assert server_args.stream_output
        self.scheduler_info = {"max_model_len": 2048, "max_num_seqs": 8}
        self.tokenizer_manager = Manager()

    def shutdown(self) -> None: ...


STANDIN: dict[str, JsonObject] = {
    "utils.server_args": {"ServerArgs": ServerArgs},
    "engine.io_struct": {"GenerateReqInput": GenerateReqInput},
    "entrypoints.engine": {"Engine": Engine},
}


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    for name, members in STANDIN.items():
        monkeypatch.setitem(sys.modules, f"tokenspeed.runtime.{name}", SimpleNamespace(**members))
    path = ROOT / "examples/tokenspeed_engine.py"
    spec = importlib.util.spec_from_file_location("tokenspeed_engine", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


async def answer(
    example: ModuleType, transcript: Transcript, **fields: Any
) -> tuple[Any, list[JsonObject]]:
    parsers = ("--tool-call-parser", "hermes", "--reasoning-parser", "qwen3")
    engine, config = await example.build([str(TINY_MODEL), *parsers])
    registered = await engine.start(1)
    assert config.model_name == str(TINY_MODEL)
    card = read(WorkerCard, registered.runtime_data[KEY])
    request = {
        "token_ids": [7, 8],
        "stop_conditions": {"max_tokens": 500},
        "extra_args": {KEY: encode(params(prompt_length=2, **fields))},
    }
    engine.engine.tokenizer_manager.transcript = transcript
    chunks = [chunk async for chunk in engine.generate(request, Context())]
    aborted = engine.engine.tokenizer_manager.aborted
    await engine.cleanup()
    return (card, aborted), chunks


def test_its_answers_are_post_processed(example: ModuleType) -> None:
    asked = ParserRequest(tools=CALL["tools"], tool_choice="auto")
    (card, aborted), chunks = asyncio.run(answer(example, CALL, parser=asked))
    assert (card.engine, card.tool_call_parser) == ("TokenspeedLLMEngine", "hermes")
    processed = [read(PostprocessedChunk, chunk["extra_args"][KEY]) for chunk in chunks]
    whole = aggregate_deltas([delta for one in processed if one for delta in one.deltas])
    assert whole.delta.reasoning_content == CALL["expect"]["reasoning"]
    calls = [
        {"name": call.function.name, "arguments": call.function.arguments}
        for call in whole.delta.tool_calls
    ]
    assert calls == CALL["expect"]["tool_calls"]
    assert whole.finish_reason == "tool_calls"
    assert aborted == []


def test_a_stop_string_ends_the_request_in_the_engine(example: ModuleType) -> None:
    asked = ParserRequest(chat_template_kwargs=LETTERS["chat_template_kwargs"])
    found = answer(example, LETTERS, parser=asked, stop=["gamma"])
    (_, aborted), chunks = asyncio.run(found)
    assert len(aborted) == 1
    generated = sum(len(chunk["token_ids"]) for chunk in chunks)
    assert generated < len(tokens(LETTERS["output"]))
