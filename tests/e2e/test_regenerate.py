"""Real engines whose model writes a malformed call, which is generated again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.client import Client, Response
from tests.e2e.conftest import VLLM_PARSERS
from tests.e2e.slipping.scripts import BEGINNING_SEEDS, FIRST_SEED, OUTPUTS, RIGHT, SLIPS, TEXT, TWO
from tools.stack import (
    GRPC_SERVER,
    HUGGINGFACE_FRONTEND,
    LOOPBACK,
    ROOT,
    Process,
    Stack,
    free_port,
    metric,
)

# The frontend generates calls of plain workers again.
PLAIN = ("vllm-plain", "sglang-plain")
# The last is vLLM's gRPC server, known by Dynamo's interface alone.
ENGINES = ("vllm", "vllm-pool", "sglang", *PLAIN, *(["sidecar"] if GRPC_SERVER.is_dir() else []))
FLAGS = (*VLLM_PARSERS, "--postprocess-malformed-calls", "regenerate")
PARAMETERS = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 12}, "days": {"type": "integer"}},
    "required": ["city"],
    "additionalProperties": False,
}
TOOL = {"type": "function", "function": {"name": "get_weather", "parameters": PARAMETERS}}
OSLO = {"city": "Oslo"}
# Slips that the parser repairs: a wrong bracket, a number in quotes.
REPAIRED = {"invalid_json", "schema"}
FIELDS = {"nvext": {"extra_fields": ["malformed_calls", "discarded_tokens"]}}


def start_worker(stack: Stack, engine: str) -> Process:
    names = {"name": engine, "wait": False, "DYN_NAMESPACE": engine}
    own, _, plain = engine.partition("-")
    flags = () if plain == "plain" else (f"--{own}-processing", *FLAGS)
    if own == "sglang":
        more = ("--enable-custom-logit-processor", "--disable-overlap-schedule")
        module = "tests.e2e.slipping.sglang_worker"
        return stack.sglang(*flags, *more, module=module, **names)  # type: ignore[arg-type]  # a dict has one type
    logits = ("--logits-processors", "tests.e2e.slipping.vllm_logits:Slipping")
    if engine == "sidecar":
        port, path = free_port(), f"{GRPC_SERVER}:{ROOT}"
        stack.grpc_vllm(port, "--reasoning-parser", "qwen3", *logits, PYTHONPATH=path)
        address = ("--engine", f"grpc://{LOOPBACK}:{port}", "--vllm-processing")
        return stack.sidecar(*address, *FLAGS, name=engine, DYN_NAMESPACE=engine)
    pool = ("--postprocess-workers", "1") if engine == "vllm-pool" else ()
    return stack.worker(*flags, *logits, *pool, **names)  # type: ignore[arg-type]  # as above


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Process, dict[str, Process]]]:
    with Stack(tmp_path_factory.mktemp("regenerate"), PYTHONPATH=str(ROOT)) as stack:
        workers = {engine: start_worker(stack, engine) for engine in ENGINES}
        frontend = stack.frontend(*FLAGS, command=HUGGINGFACE_FRONTEND, wait=False)
        for engine in ENGINES:
            stack.wait_for_model(frontend, engine)
        yield frontend, {**workers, **dict.fromkeys(PLAIN, frontend)}


def ask(
    stack: tuple[Process, dict[str, Process]], engine: str, output: str, **more: Any
) -> Response:
    client = Client(stack[0].url, engine)
    request: dict[str, Any] = {
        "messages": [{"role": "user", "content": "Weather?"}],
        "tools": [TOOL],
        "max_tokens": 400,
    }
    return client.ask(request, seed=FIRST_SEED + OUTPUTS.index(output), extra_body=FIELDS, **more)


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("output", SLIPS, ids=list(SLIPS.values()))
@pytest.mark.parametrize("engine", ENGINES)
def test_the_call_that_arrives_is_right(
    stack: tuple[Process, dict[str, Process]], engine: str, output: str, stream: bool
) -> None:
    response = ask(stack, engine, output, stream=stream)
    [call] = response.message["tool_calls"]
    arguments = json.loads(call["arguments"])
    assert call["name"] == "get_weather"
    assert isinstance(arguments["city"], str)
    assert arguments.keys() <= PARAMETERS["properties"].keys()  # type: ignore[attr-defined]  # a dict
    assert response.message["finish_reason"] == "tool_calls"
    assert "tool_call" not in (response.message["content"] or "")
    assert response.malformed_calls == []
    assert (response.discarded_tokens == 0) == (SLIPS[output] in REPAIRED)


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("engine", ENGINES)
def test_a_call_that_was_right_stays(
    stack: tuple[Process, dict[str, Process]], engine: str, stream: bool
) -> None:
    response = ask(stack, engine, TWO, stream=stream, logprobs=True)
    first, second = response.message["tool_calls"]
    assert json.loads(first["arguments"]) == OSLO
    assert "city" in json.loads(second["arguments"])
    assert response.message["content"] == "Two."
    # The token that ends the answer has no text.
    assert len(response.answer.logprobs) == response.usage.completion_tokens - 1


@pytest.mark.parametrize("engine", ENGINES)
def test_good_answers_are_left_alone(
    stack: tuple[Process, dict[str, Process]], engine: str
) -> None:
    before = metric(stack[1][engine].url, "backedge_discarded_tokens_total")
    for stream in (True, False):
        response = ask(stack, engine, RIGHT, stream=stream)
        [call] = response.message["tool_calls"]
        assert json.loads(call["arguments"]) == OSLO
        text = ask(stack, engine, TEXT, stream=stream).message["content"]
        assert text == TEXT.removeprefix("</think>")
        assert (response.malformed_calls, response.discarded_tokens) == ([], 0)
    assert metric(stack[1][engine].url, "backedge_discarded_tokens_total") == before


@pytest.mark.parametrize("engine", ["vllm", "vllm-plain"])
def test_a_call_of_random_tokens_ends_in_a_right_one(
    stack: tuple[Process, dict[str, Process]], engine: str
) -> None:
    """The model begins a call, and goes on at random."""
    client, discarded = Client(stack[0].url, engine), 0
    request: dict[str, Any] = {
        "messages": [{"role": "user", "content": "Weather?"}],
        "tools": [TOOL],
        "max_tokens": 700,
        "temperature": 2.0,
    }
    for seed in BEGINNING_SEEDS:
        response = client.ask(request, seed=seed, stream=seed % 2 == 0, extra_body=FIELDS)
        assert response.malformed_calls == []
        assert response.message["tool_calls"]
        for call in response.message["tool_calls"]:
            arguments = json.loads(call["arguments"])
            assert isinstance(arguments["city"], str)
        discarded += response.discarded_tokens or 0
    assert discarded


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("engine", ENGINES)
def test_each_of_several_choices_is_generated_again(
    stack: tuple[Process, dict[str, Process]], engine: str, stream: bool
) -> None:
    """The second has the next seed, and so the next slip."""
    client = Client(stack[0].url, engine).openai
    request: dict[str, Any] = {
        "model": engine,
        "messages": [{"role": "user", "content": "Weather?"}],
        "tools": [TOOL],
        "max_tokens": 400,
        "seed": FIRST_SEED,
        "n": 2,
        "temperature": 0.01,
        "extra_body": FIELDS,
    }
    if stream:
        with client.chat.completions.stream(
            **request, stream_options={"include_usage": True}
        ) as events:
            response = events.get_final_completion()
    else:
        response = client.chat.completions.create(**request)
    choices = {choice.index: choice.message for choice in response.choices}
    assert sorted(choices) == [0, 1]
    for message in choices.values():
        [called] = message.tool_calls or []
        assert called.function.name == "get_weather"
        assert "city" in json.loads(called.function.arguments)
    assert response.usage is not None
    single = ask(stack, engine, next(iter(SLIPS)), stream=False)
    assert response.usage.prompt_tokens == single.usage.prompt_tokens
    assert response.usage.completion_tokens > single.usage.completion_tokens


@pytest.mark.parametrize("engine", ENGINES)
def test_a_client_may_ask_for_the_first_attempt(
    stack: tuple[Process, dict[str, Process]], engine: str
) -> None:
    output = next(iter(SLIPS))
    response = ask(stack, engine, output, metadata={"backedge": {"malformed_calls": "open"}})
    [call] = response.message["tool_calls"]
    assert json.loads(call["arguments"]) == {"place": "Rome"}
    # Its arguments are an object, so it is not open.
    assert (response.malformed_calls, response.discarded_tokens) == ([], 0)


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("engine", ENGINES)
def test_a_call_that_stays_open_is_named(
    stack: tuple[Process, dict[str, Process]], engine: str, stream: bool
) -> None:
    [output] = (output for output, fault in SLIPS.items() if fault == "unfinished")
    once = {"backedge": {"malformed_calls": "open"}}
    response = ask(stack, engine, output, metadata=once, stream=stream)
    assert response.malformed_calls == [{"index": 0, "reason": "unfinished"}]
    assert response.message["finish_reason"] == "stop"
