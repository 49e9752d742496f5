"""TensorRT-LLM's adapter: what it checks before the engine loads, and its requests.

The engine is the stand-in of tests/standin, and Dynamo's handler its own. They show that the parts
fit; what TensorRT-LLM itself does, only a GPU shows.
"""

from __future__ import annotations

import argparse
import asyncio
import contextvars
from collections.abc import AsyncGenerator, AsyncIterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
from backedge.base.errors import SetupError, UnknownParserError
from backedge.base.json_types import JsonObject
from backedge.engines.trtllm import worker as trtllm
from backedge.engines.trtllm.worker import TrtllmRequestHandle, separate_end
from backedge.parsers.base import ParserNames
from backedge.postprocess.settings import PostprocessSettings
from backedge.worker import flags
from dynamo.llm.exceptions import InvalidArgument

from tests.support import TINY_MODEL

SETTINGS = flags.WorkerSettings()
EOS, STOP = 9, 7


def config(mode: str = "prefill_and_decode", modality: str = "text") -> Any:
    return SimpleNamespace(
        model=str(TINY_MODEL),
        disaggregation_mode=SimpleNamespace(value=mode),
        modality=SimpleNamespace(value=modality),
        dyn_tool_call_parser=None,
        dyn_reasoning_parser=None,
    )


def test_unknown_names_are_refused_with_the_known_ones() -> None:
    for names in (ParserNames("nope"), ParserNames(reasoning="nope")):
        with pytest.raises(UnknownParserError, match="qwen3"):
            trtllm.TrtllmWorker.enable(config(), flags.WorkerSettings(names=names))


def test_native_parsers_in_processes_are_refused() -> None:
    settings = flags.WorkerSettings(parsers="native", workers=2)
    with pytest.raises(SetupError, match=r"--postprocess-workers 2: .* MPI"):
        trtllm.TrtllmWorker.enable(config(), settings)


@pytest.mark.parametrize(
    ("settings", "processes"),
    [
        (flags.WorkerSettings(), 0),
        (flags.WorkerSettings(workers=3), 0),
        (flags.WorkerSettings(parsers="native"), 0),
        (flags.WorkerSettings(parsers="native", workers=0), 0),
    ],
)
def test_parsers_run_in_the_workers_event_loop(
    settings: flags.WorkerSettings, processes: int
) -> None:
    worker = trtllm.TrtllmWorker(config(), settings)
    assert worker.settings.pool_processes(is_native=True) == processes


@pytest.mark.parametrize(
    ("worker", "expected"),
    [
        (config(), True),
        (config("decode"), True),
        (config("prefill"), False),
        (config("encode"), False),
        (config(modality="multimodal"), True),
        (config(modality="video_diffusion"), False),
        (config(modality="image_diffusion"), False),
    ],
)
def test_who_post_processes(worker: Any, expected: bool) -> None:
    assert trtllm.TrtllmWorker(worker, SETTINGS).post_processes() is expected


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], None),
        (["--trtllm-processing"], flags.WorkerSettings()),
        (
            ["--native-framework-processing", "--tool-call-parser", "x"],
            flags.WorkerSettings(names=ParserNames("x")),
        ),
        (
            ["--trtllm-processing", "--reasoning-parser", "y", "--postprocess-on-error", "fail"],
            flags.WorkerSettings(
                names=ParserNames(None, "y"), postprocess=PostprocessSettings(on_error="fail")
            ),
        ),
    ],
)
def test_flags(words: list[str], expected: flags.WorkerSettings | None) -> None:
    from dynamo.trtllm.backend_args import DynamoTrtllmArgGroup

    parser = argparse.ArgumentParser()
    add_arguments = DynamoTrtllmArgGroup.add_arguments
    trtllm.add_flags(getattr(add_arguments, "__wrapped__", add_arguments))(
        DynamoTrtllmArgGroup(), parser
    )
    arguments = parser.parse_args(["--model", "m", *words])
    assert arguments.model == "m"
    assert flags.read_settings(arguments, "trtllm") == expected


@pytest.mark.parametrize("name", ["hermes", "auto"])
def test_post_processing_is_enabled_by_the_first_configuration_that_is_checked(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dynamo.trtllm import args

    enabled: list[Any] = []
    monkeypatch.setattr(args.Config, "validate", trtllm.enable_once(lambda config: None))
    monkeypatch.setattr(trtllm.TrtllmWorker, "enable", lambda *found: enabled.append(found))
    parser = argparse.ArgumentParser()
    flags.add_flags(parser, "trtllm")
    parser.add_argument("--model")
    words = ["--trtllm-processing", "--model", str(TINY_MODEL), "--tool-call-parser", name]
    parsed = parser.parse_args(words)
    for _ in range(2):
        found = args.Config.from_cli_args(parsed)
        found.validate()
    ((first, settings),) = enabled
    assert isinstance(first, args.Config)
    assert settings.names == ParserNames("hermes")


def test_a_dynamo_of_another_structure_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    from dynamo.trtllm import args

    monkeypatch.delattr(args, "DynamoTrtllmArgGroup")
    before = args.Config.validate
    trtllm.watch_arguments()
    assert args.Config.validate is before


def test_the_tokenizer_is_that_of_tensorrt_llm() -> None:
    worker = trtllm.TrtllmWorker(config(), flags.WorkerSettings(names=ParserNames("hermes")))
    worker.take_engine_arguments({"model": str(TINY_MODEL)})
    tokenizer: Any = worker.load().tokenizer
    assert tokenizer.decode([553]) == "<|im_end|>"
    assert worker.find_vocabulary_size(None) == 560
    assert worker._eos_token_ids == {553}


# The request's stop conditions and end-of-sequence tokens; which tokens the engine gets to stop
# at, and which end a choice.
STOPS: list[tuple[JsonObject | None, list[int], list[int] | None, list[int]]] = [
    (None, [], None, []),
    ({}, [EOS], None, [EOS]),
    ({"stop_token_ids": []}, [], None, []),
    ({"stop_token_ids": [STOP]}, [EOS], [STOP], [STOP, EOS]),
    ({"stop_token_ids_hidden": [1], "stop_token_ids": [STOP, 1]}, [], [1, STOP], [1, STOP]),
]


@pytest.mark.parametrize(("conditions", "eos", "hidden", "ends"), STOPS)
def test_the_engine_gets_the_clients_stop_tokens(
    conditions: JsonObject | None, eos: list[int], hidden: list[int] | None, ends: list[int]
) -> None:
    request: JsonObject = {"stop_conditions": conditions, "eos_token_ids": eos}
    assert trtllm.add_stop_tokens(request) == ends
    assert request["stop_conditions"].get("stop_token_ids_hidden") == hidden


def output(*token_ids: int, **fields: Any) -> JsonObject:
    return {"token_ids": list(token_ids), "index": 0, **fields}


# What Dynamo's handler gives, and what post-processing gets.
ENDS: dict[str, tuple[JsonObject, list[JsonObject]]] = {
    "no end": (output(1), [output(1)]),
    "a limit": (output(1, finish_reason="length"), [output(1, finish_reason="length")]),
    "end of sequence, kept": (
        output(1, EOS, finish_reason="stop"),
        [output(1, EOS, finish_reason="stop")],
    ),
    "end of sequence, removed": (
        output(1, finish_reason="stop"),
        [output(1), output(finish_reason="stop")],
    ),
    "nothing but the end": (output(finish_reason="stop"), [output(finish_reason="stop")]),
    "stop token, removed": (
        output(1, finish_reason="stop", stop_reason=STOP),
        [output(1), output(STOP, finish_reason="stop", stop_reason=STOP)],
    ),
    "nothing but a stop token, removed": (
        output(finish_reason="stop", stop_reason=STOP),
        [output(STOP, finish_reason="stop", stop_reason=STOP)],
    ),
    "stop token, kept": (
        output(STOP, finish_reason="stop", stop_reason=STOP),
        [output(STOP, finish_reason="stop", stop_reason=STOP)],
    ),
    "log probabilities stay with their tokens, usage with the end": (
        output(1, finish_reason="stop", log_probs=[0.5], completion_usage={"x": 1}),
        [output(1, log_probs=[0.5]), output(finish_reason="stop", completion_usage={"x": 1})],
    ),
}


@pytest.mark.parametrize(("given", "expected"), ENDS.values(), ids=ENDS)
def test_the_last_token_of_a_choice_is_the_one_that_ended_it(
    given: JsonObject, expected: list[JsonObject]
) -> None:
    assert list(separate_end(given, frozenset({EOS, STOP}))) == expected


class Request:
    """The engine's request: counts how often it is ended."""

    def __init__(self) -> None:
        self.aborts = 0

    def abort(self) -> None:
        self.aborts += 1


class Handler:
    """Dynamo's handler: gives `outputs` of a request that it has given to the engine."""

    def __init__(self, outputs: list[JsonObject]) -> None:
        self.request = Request()
        self._outputs = outputs
        self._monitor = trtllm.with_request_handle(lambda handler, request, context: request)

    async def start(self) -> AsyncIterator[JsonObject]:
        assert self._monitor(self, self.request, None) is self.request
        for each in self._outputs:
            yield each


def run(handler: Handler, n: int, *aborts: tuple[int, int]) -> list[JsonObject]:
    """Return what comes of the handler's outputs. aborts: after how many of them, which choice."""

    async def read() -> list[JsonObject]:
        handle = TrtllmRequestHandle(n, frozenset({EOS}))
        found: list[JsonObject] = []
        async for each in handle.outputs(handler.start):
            found.append(each)
            for after, index in aborts:
                if after == len(found):
                    await handle.abort(index)
        return found

    return contextvars.copy_context().run(asyncio.run, read())


END_0 = output(EOS, finish_reason="stop")
END_1 = output(EOS, index=1, finish_reason="stop")


def test_ends_that_dynamos_handler_repeats_are_left_out() -> None:
    outputs = [output(1), output(index=1), END_0, output(finish_reason="stop"), END_1, END_1]
    handler = Handler([*outputs[:3], outputs[3], output(2, index=1), *outputs[4:]])
    assert run(handler, 2) == [output(1), END_0, output(2, index=1), END_1]
    assert handler.request.aborts == 0


def test_a_request_ends_with_its_last_wanted_choice() -> None:
    steps = [output(1), output(1, index=1)] * 4
    for aborts, ended_after in (
        ([(1, 0), (4, 1)], 4),  # both aborted
        ([(1, 0)], None),  # one goes on
    ):
        handler = Handler(steps + [END_1] * (ended_after is None))
        found = run(handler, 2, *aborts)
        assert handler.request.aborts == 1
        assert len(found) == (ended_after or len(steps) + 1)


def test_a_choice_that_ends_by_itself_leaves_none_that_is_wanted() -> None:
    handler = Handler([output(1), output(1, index=1), END_0, output(2, index=1)])
    assert run(handler, 2, (2, 1)) == [output(1), output(1, index=1), END_0]
    assert handler.request.aborts == 1


def test_outputs_that_are_left_early_end_the_request() -> None:
    handler = Handler([output(1), output(2)])

    async def read_one() -> None:
        handle = TrtllmRequestHandle(1, frozenset())
        outputs = handle.outputs(handler.start)
        assert await anext(outputs) == output(1)
        await cast("AsyncGenerator[JsonObject, None]", outputs).aclose()

    contextvars.copy_context().run(asyncio.run, read_one())
    assert handler.request.aborts == 1


@pytest.mark.parametrize(
    "error", [{"finish_reason": {"error": "too long"}, "token_ids": []}, {"finish_reason": "error"}]
)
def test_an_error_passes_as_it_is(error: JsonObject) -> None:
    handler = Handler([output(1), error])
    assert run(handler, 1) == [output(1), error]
    assert handler.request.aborts == 0


REFUSALS = [
    ("the prompt is too long", InvalidArgument),
    ("Worker is temporarily rejecting new requests", None),
]


@pytest.mark.parametrize(("error", "raised"), REFUSALS)
def test_what_the_engine_refuses_is_the_requests_fault(
    error: str, raised: type[Exception] | None
) -> None:
    answer = {"finish_reason": {"error": error}, "token_ids": []}

    async def refuse() -> AsyncIterator[JsonObject]:
        yield answer

    async def read() -> list[JsonObject]:
        handle = TrtllmRequestHandle(1, frozenset())
        return [each async for each in handle.outputs(refuse)]

    run_alone = contextvars.copy_context().run
    if raised is None:
        assert run_alone(asyncio.run, read()) == [answer]
    else:
        with pytest.raises(raised, match=f"^{error}$"):
            run_alone(asyncio.run, read())


def test_without_a_request_of_ours_the_monitor_is_left_alone() -> None:
    monitor = trtllm.with_request_handle(lambda *found: found)
    assert monitor("handler", "request", "context") == ("handler", "request", "context")
