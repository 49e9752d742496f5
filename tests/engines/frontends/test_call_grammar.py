"""The same request to the same workers is held to the same grammar, whichever edge prepares it."""

from __future__ import annotations

import argparse
import asyncio
import json
from typing import Any

import pytest
from backedge.frontend.chat_model import ChatModel
from backedge.frontend.prompt_queue import PromptQueue
from backedge.postprocess.messages import KEY, PostprocessParams, WorkerCard, encode, read
from backedge.tokenization.tokenizer_selection import Backend

from tests.engines.frontends.all_edges import CHOICES, load, prepared
from tests.frontend.doubles import Card

USER = {"role": "user", "content": "What is the weather in Rome?"}
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}}


def tool(name: str, **fields: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": PARAMETERS, **fields}}


FREE, STRICT = [tool("weather"), tool("time", strict=False)], [tool("weather", strict=True)]
NAMED = {"type": "function", "function": {"name": "weather"}}
REQUESTS: dict[str, dict[str, Any]] = {
    "auto": {"tools": FREE},
    "strict": {"tools": STRICT},
    "one call": {"tools": FREE, "parallel_tool_calls": False},
    "required": {"tools": FREE, "tool_choice": "required"},
    "required, one": {"tools": FREE, "tool_choice": "required", "parallel_tool_calls": False},
    "named": {"tools": FREE, "tool_choice": NAMED},
    "none": {"tools": FREE, "tool_choice": "none"},
    "no tools": {},
    "json beside tools": {"tools": FREE, "response_format": {"type": "json_object"}},
}
ALWAYS: dict[str, Any] = {"scope": "always", "schema": "auto"}
ON_DEMAND: dict[str, Any] = {"scope": "auto", "schema": "auto"}
WAITS: dict[str, Any] = {"tool_call_structural_tag_excludes_reasoning": True}
BEGINS: dict[str, Any] = {"tool_call_structural_tag_excludes_reasoning": False}
GATED: dict[str, Any] = {"tool_call_structural_tag_reasoning_gate": True}
# engine, parser, what the card says of structural tags
CARDS = {
    "vllm": ("vllm", "hermes", ALWAYS),
    "sglang": ("sglang", "hermes", ALWAYS),
    "plain": (None, "hermes", ALWAYS),
    "on demand": ("vllm", "qwen3_coder", ON_DEMAND),
    "off": ("sglang", "hermes", None),
    "no parser": ("vllm", None, ALWAYS),
}
# engine, what the card says of grammars and reasoning: for models that think
THINKERS = {
    "vllm waits": ("vllm", WAITS),
    "vllm begins": ("vllm", BEGINS),
    "sglang": ("sglang", {}),
    "sidecar": ("vllm", {}),
    "plain vllm waits": (None, WAITS),
    "plain vllm begins": (None, BEGINS),
    "plain sglang": (None, GATED),
    "plain unknown": (None, {}),
}
# By card: the requests that are held to the model's own syntax.
FORCED = {"required", "required, one", "named"}
TAGGED = {name: {"auto", "strict", "one call", *FORCED} for name in ("vllm", "sglang", "plain")}
TAGGED |= {"on demand": {"strict", "one call", *FORCED}, "off": set(), "no parser": set()}


def build_card(name: str) -> Card:
    engine, parser, tags = CARDS[name]
    worker = WorkerCard(engine=engine or "", engine_version="1", tool_call_parser=parser)
    return Card(
        {
            "runtime_data": {KEY: encode(worker)} if engine else {},
            "context_length": 2048,
            "tool_call_parser": parser,
            "structural_tag": tags,
        }
    )


def build_thinking_card(name: str) -> Card:
    engine, runtime_data = THINKERS[name]
    names: dict[str, Any] = {"tool_call_parser": "hermes", "reasoning_parser": "qwen3"}
    if engine:
        worker = WorkerCard(engine=engine, engine_version="1", **names)
        runtime_data = runtime_data | {KEY: encode(worker)}
    common = {"context_length": 2048, "structural_tag": ALWAYS, **names}
    return Card({"runtime_data": runtime_data, **common})


Models = dict[tuple[str, Backend], ChatModel]


@pytest.fixture(scope="module")
def models(flags: argparse.Namespace, loop: asyncio.AbstractEventLoop) -> Models:
    cards = {name: build_card(name) for name in CARDS}
    return build_models(flags, loop, cards)


@pytest.fixture(scope="module")
def thinkers(flags: argparse.Namespace, loop: asyncio.AbstractEventLoop) -> Models:
    cards = {name: build_thinking_card(name) for name in THINKERS}
    return build_models(flags, loop, cards)


def build_models(
    flags: argparse.Namespace, loop: asyncio.AbstractEventLoop, cards: dict[str, Card]
) -> Models:
    prompt_queue = PromptQueue(threads=1)

    async def build() -> Models:
        return {
            (name, backend): await load(backend, flags, prompt_queue, card)
            for name, card in cards.items()
            for backend in CHOICES
        }

    return loop.run_until_complete(build())


@pytest.mark.parametrize("request_name", REQUESTS)
@pytest.mark.parametrize("card", CARDS)
def test_every_edge_finds_the_same_grammar(
    models: Models, loop: asyncio.AbstractEventLoop, card: str, request_name: str
) -> None:
    found, in_json = {}, {}
    for backend in CHOICES:
        fields = {"messages": [USER], **REQUESTS[request_name]}
        made = prepared(loop, models[card, backend], fields).preprocessed
        found[backend] = made["sampling_options"].get("guided_decoding")
        params = read(PostprocessParams, made["extra_args"][KEY])
        assert params is not None
        in_json[backend] = params.parser is not None and params.parser.json_calls
    is_tagged = request_name in TAGGED[card]
    for grammar in found.values():
        assert ((grammar or {}).get("structural_tag") is not None) is is_tagged
    # JSON that forces a call is written by each edge in its own way, and means the same.
    if is_tagged or request_name not in FORCED:
        assert len({json.dumps(grammar, sort_keys=True) for grammar in found.values()}) == 1, found
    assert set(in_json.values()) == {request_name in FORCED and not is_tagged}


THINKING: dict[str, dict[str, Any]] = {
    "by default": {},
    "on": {"chat_template_kwargs": {"enable_thinking": True}},
    "off": {"chat_template_kwargs": {"enable_thinking": False}},
}


@pytest.mark.parametrize("thinking", THINKING)
@pytest.mark.parametrize("request_name", [*sorted(FORCED), "strict"])
@pytest.mark.parametrize("card", THINKERS)
def test_calls_of_a_model_that_thinks_have_its_own_syntax(
    thinkers: Models, loop: asyncio.AbstractEventLoop, card: str, request_name: str, thinking: str
) -> None:
    found, told = set(), set()
    for backend in CHOICES:
        fields = {"messages": [USER], **REQUESTS[request_name], **THINKING[thinking]}
        made = prepared(loop, thinkers[card, backend], fields).preprocessed
        grammar = made["sampling_options"]["guided_decoding"]
        found.add(json.dumps(grammar, sort_keys=True))
        told.add(made.get("require_reasoning"))
    [grammar] = found
    assert "structural_tag" in json.loads(grammar)
    begins = card.endswith("begins")
    # Text before calls that are not forced is free.
    passes = begins and request_name in FORCED and thinking != "off"
    assert ("</think>" in grammar) is passes
    # The engine of a plain worker is told whether to wait.
    if card.startswith("plain") and not begins:
        assert told == {thinking != "off"}
