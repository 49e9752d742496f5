"""SGLang's adapter: what it checks before the engine loads, and its requests.

`SglangRequestHandle` runs against SGLang's own tokenizer manager: whatever is asked for, every
token comes once and in order.
"""

from __future__ import annotations

import argparse
import asyncio
import contextvars
import logging
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest
from backedge.base.errors import SetupError, UnknownParserError
from backedge.engines.sglang import worker as sglang
from backedge.engines.sglang.worker import (
    MAX_DELIVERED_OUTPUTS,
    SglangRequestHandle,
    with_request_handle,
)
from backedge.parsers.base import ParserNames
from backedge.tokenization.detokenizer import detokenizers
from backedge.tokenization.tokenizer_selection import TokenizerSelection
from backedge.worker import flags
from hypothesis import given, settings
from hypothesis import strategies as st
from sglang.srt.managers.tokenizer_manager import ReqState, TokenizerManager

from tests.support import TINY_MODEL

SETTINGS = flags.WorkerSettings()


def config(mode: str = "agg", dynamo: str = "") -> Any:
    """Return Dynamo's configuration. dynamo: one of its flags that is set."""
    names = ("dyn_tool_call_parser", "dyn_reasoning_parser")
    kinds = dict.fromkeys((*sglang.OTHER_WORKERS, "use_sglang_tokenizer", *names), False)
    server_args = SimpleNamespace(
        model_path=str(TINY_MODEL),
        tokenizer_path=None,
        reasoning_parser=None,
        tokenizer_mode="auto",
        trust_remote_code=False,
        revision=None,
    )
    return SimpleNamespace(
        serving_mode=SimpleNamespace(value=mode),
        dynamo_args=SimpleNamespace(**{**kinds, dynamo: True}),
        server_args=server_args,
    )


def test_text_mode_is_refused() -> None:
    with pytest.raises(SetupError, match="--use-sglang-tokenizer"):
        sglang.SglangWorker.enable(config(dynamo="use_sglang_tokenizer"), SETTINGS)


@pytest.mark.parametrize("names", [ParserNames("auto"), ParserNames(reasoning="auto")])
def test_unknown_names_are_refused_with_the_known_ones(names: ParserNames) -> None:
    # SGLang's own command line lets "auto" through besides the names.
    with pytest.raises(UnknownParserError, match="qwen"):
        sglang.SglangWorker.enable(config(), flags.WorkerSettings(names=names))


@pytest.mark.parametrize(
    ("ours", "engines", "waits"),
    [(None, None, True), ("glm45", "glm45", True), ("seed_oss", None, False)],
)
def test_a_grammar_waits_for_the_reasoning_that_the_engine_knows(
    ours: str | None, engines: str | None, waits: bool
) -> None:
    worker = config()
    worker.server_args.reasoning_parser = engines
    settings = flags.WorkerSettings(names=ParserNames(None, ours))
    assert sglang.SglangWorker(worker, settings).grammar_waits is waits


@pytest.mark.parametrize(
    ("worker", "expected"),
    [
        *((config(mode), True) for mode in ("agg", "decode")),
        *((config(mode), False) for mode in ("prefill", "encode")),
        *((config(dynamo=kind), False) for kind in sglang.OTHER_WORKERS),
    ],
)
def test_who_post_processes(worker: Any, expected: bool) -> None:
    assert sglang.SglangWorker(worker, SETTINGS).post_processes() is expected


@pytest.mark.parametrize(
    ("kind", "name"), [("linear", "LinearParsers"), ("native", "SglangParsers")]
)
def test_the_parsers_are_made_for_sglangs_tokenizer(kind: Any, name: str) -> None:
    names = ParserNames("hermes", "qwen3")
    chosen = flags.WorkerSettings(names=names, parsers=kind)
    loaded = sglang.SglangWorker(config(), chosen).load()
    assert type(loaded.parsers).__name__ == name
    again, parsers_again = sglang.pool_parts(names, **loaded.pool_arguments)
    assert parsers_again.name == loaded.parsers.name == "qwen3+hermes"
    tokenizer: Any = loaded.tokenizer
    assert detokenizers(again).is_special(tokenizer.eos_token_id)


def parser() -> argparse.ArgumentParser:
    """Return a command line with SGLang's flags and ours."""
    from sglang.srt.server_args import ServerArgs

    made = argparse.ArgumentParser()
    # Without what the entry point, which is installed here, has done to it.
    getattr(ServerArgs.add_cli_args, "__wrapped__", ServerArgs.add_cli_args)(made)
    flags.add_flags(made, "sglang")
    return made


@pytest.mark.parametrize(
    ("words", "fields"),
    [
        ([], {}),
        (["--tool-call-parser", "qwen25", "--reasoning-parser", "qwen3"], {}),
        (
            ["--postprocess-parsers", "native", "--postprocess-workers", "3"],
            {"parsers": "native", "workers": 3},
        ),
        (["--tokenizer-backend", "fastokens"], {}),
        (
            ["--tokenizer-backend", "python", "--tokenizer-module", "m", "--tokenizer-class", "C"],
            {"tokenizer": TokenizerSelection("python", "m", "C")},
        ),
    ],
)
@pytest.mark.parametrize("switch", flags.enabling_flags("sglang"))
def test_flags(switch: str, words: list[str], fields: dict[str, Any]) -> None:
    if "qwen3" in words:
        fields = {"names": ParserNames("qwen25", "qwen3")}
    arguments = parser().parse_args(["--model-path", "m", switch, *words])
    assert flags.read_settings(arguments, "sglang") == flags.WorkerSettings(**fields)


# Flags of a worker without the switch, and the tokenizer that it advertises.
TOKENIZER_FLAGS = [
    ([], None),
    (["--tokenizer-backend", "fastokens"], None),
    (["--tokenizer-backend", "vllm"], TokenizerSelection("vllm")),
    (
        ["--tokenizer-backend", "python", "--tokenizer-module", "m", "--tokenizer-class", "C"],
        TokenizerSelection("python", "m", "C"),
    ),
]


@pytest.mark.parametrize(("words", "tokenizer"), TOKENIZER_FLAGS)
def test_without_the_switch_a_tokenizer_is_advertised(
    words: list[str], tokenizer: TokenizerSelection | None
) -> None:
    found = flags.read_settings(parser().parse_args(["--model-path", "m", *words]), "sglang")
    expected = tokenizer and flags.WorkerSettings(post_processing=False, tokenizer=tokenizer)
    assert found == expected


@pytest.mark.parametrize(
    "words",
    [
        ["--tokenizer-backend", "python"],
        ["--tokenizer-backend", "python", "--tokenizer-module", "m"],
        ["--tokenizer-module", "m"],
        ["--tokenizer-class", "C"],
        ["--tokenizer-backend", "vllm", "--tokenizer-class", "C"],
    ],
)
def test_without_the_switch_the_flags_are_checked(words: list[str]) -> None:
    with pytest.raises(SetupError, match=r"--tokenizer-(module|class)"):
        flags.read_settings(parser().parse_args(["--model-path", "m", *words]), "sglang")


# What is said on the command line, and what is left of it for the engine.
ENGINES_PART = [
    ([], (None, None, "huggingface")),
    (
        ["--tool-call-parser", "qwen25", "--reasoning-parser", "qwen3"],
        ("qwen25", "qwen3", "huggingface"),
    ),
    # vLLM's names for what SGLang calls otherwise, and a format that SGLang has not.
    (
        ["--tool-call-parser", "deepseek_v31", "--reasoning-parser", "deepseek_r1"],
        ("deepseekv31", "deepseek-r1"),
    ),
    (["--tool-call-parser", "granite-20b-fc", "--reasoning-parser", "olmo3"], (None, None)),
    (["--tokenizer-backend", "fastokens"], (None, None, "fastokens")),
    (["--tokenizer-backend", "vllm"], (None, None, "huggingface")),
]


@pytest.mark.parametrize(
    ("words", "left"), ENGINES_PART, ids=[" ".join(words) for words, _ in ENGINES_PART]
)
def test_the_engine_gets_what_it_knows(words: list[str], left: tuple[str | None, ...]) -> None:
    arguments = parser().parse_args(["--model-path", "m", "--sglang-processing", *words])
    found_settings = flags.read_settings(arguments, "sglang")
    flags.keep_engine_choices(arguments)
    found = (arguments.tool_call_parser, arguments.reasoning_parser, arguments.tokenizer_backend)
    assert found[: len(left)] == left
    if len(words) > 2:
        assert found_settings is not None
        assert found_settings.names == ParserNames(words[1], words[3])


@pytest.mark.parametrize(
    ("words", "left"),
    [(["--sglang-processing"], ("hermes", "qwen3")), ([], ("auto", "auto"))],
    ids=["ours", "its own"],
)
def test_auto_is_resolved_for_the_engine_as_well(words: list[str], left: tuple[str, str]) -> None:
    made = parser()
    sglang.watch_arguments(made)
    auto = ("--tool-call-parser", "auto", "--reasoning-parser", "auto")
    arguments = made.parse_args(["--model-path", str(TINY_MODEL), *auto, *words])
    assert (arguments.tool_call_parser, arguments.reasoning_parser) == left


class Configured:
    """Dynamo's `Config`, as far as it is wrapped."""

    def __init__(self, server_args: str) -> None:
        self.server_args = server_args


@pytest.mark.parametrize(("words", "enabled"), [(["--sglang-processing"], ["first"]), ([], [])])
def test_the_first_configuration_after_the_flag_is_the_workers(
    words: list[str], enabled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from dynamo.sglang import args

    seen: list[str] = []
    monkeypatch.setattr(args, "Config", Configured)
    monkeypatch.setattr(type(sglang.ENGINE), "check_seams", lambda *_: frozenset())
    monkeypatch.setattr(
        sglang.SglangWorker, "enable", lambda made, settings: seen.append(made.server_args)
    )
    made = parser()
    sglang.watch_arguments(made)
    made.parse_args(["--model-path", "m", *words])
    assert [args.Config(name).server_args for name in ("first", "second")] == ["first", "second"]
    assert seen == enabled


GREEDY = {"temperature": 0}


class Manager(TokenizerManager):
    """SGLang's, as far as it is asked; outputs are put into it as `_handle_batch_output` does."""

    def __init__(self) -> None:
        self.rid_to_state: dict[str, Any] = {}
        self.incremental_streaming_output = True
        self.enable_metrics = False
        self.request_logger = SimpleNamespace(log_finished_request=lambda *args, **kwargs: None)
        self.request_metrics_exporter_manager = SimpleNamespace(exporter_enabled=lambda: False)
        self.aborted: list[str] = []

    def _dispatch_to_scheduler(self, request: Any) -> None:
        self.aborted.append(request.rid)

    def add(self, rid: str) -> AsyncIterator[dict[str, Any]]:
        """Take a request; return what its handler reads."""
        request = SimpleNamespace(rid=rid, stream=True)
        times = SimpleNamespace(response_sent_to_client_time=1.0)
        state = self.rid_to_state[rid] = ReqState([], False, asyncio.Event(), request, times)
        outputs: AsyncIterator[dict[str, Any]] = self._stream_one_response(request, state)
        return outputs

    def put(self, rid: str, token_ids: list[int], *, last: bool = False) -> None:
        state = self.rid_to_state[rid]
        state.finished = last
        reason = {"type": "stop"} if last else None
        state.out_list.append(
            {"text": "", "output_ids": token_ids, "meta_info": {"id": rid, "finish_reason": reason}}
        )
        if last:
            del self.rid_to_state[rid]
        state.event.set()


class Client:
    """Reads one choice's outputs as they come."""

    def __init__(self, manager: Manager, rid: str) -> None:
        self.manager = manager
        self.rid = rid
        self.groups: list[list[int]] = []
        self.generated: list[int] = []
        self.reading = asyncio.ensure_future(self._read(manager.add(rid)))

    async def _read(self, outputs: AsyncIterator[dict[str, Any]]) -> None:
        async for output in outputs:
            self.groups.append(output["output_ids"])

    async def step(self, count: int, *, last: bool = False, looks: bool = True) -> None:
        """Generate some tokens; looks: the client's task runs before the next."""
        new = list(range(len(self.generated), len(self.generated) + count))
        self.generated += new
        self.manager.put(self.rid, new, last=last)
        if looks:
            await self.look()

    async def look(self) -> None:
        for _ in range(3):
            await asyncio.sleep(0)

    async def end(self) -> None:
        await asyncio.wait_for(self.reading, 1)

    @property
    def tokens(self) -> list[int]:
        return [token_id for group in self.groups for token_id in group]


def running(manager: Manager, n: int = 1, *, reasons: bool = False) -> SglangRequestHandle:
    return SglangRequestHandle(manager, n, lambda: reasons)


def started(manager: Manager, rid: str = "r") -> tuple[SglangRequestHandle, Client]:
    request = running(manager)
    request.prepare({"rid": rid, "sampling_params": GREEDY})
    return request, Client(manager, rid)


events = st.lists(
    st.one_of(
        st.tuples(st.just("step"), st.sampled_from([1, 1, 1, 2, 5]), st.booleans()),
        st.tuples(st.just("interval"), st.sampled_from([1, 1, 2, 3, 8, 256]), st.none()),
    ),
    max_size=60,
)


@settings(max_examples=300, deadline=None, database=None)
@given(script=events)
def test_every_token_comes_once_and_in_order(script: list[Any]) -> None:
    async def run() -> None:
        request, client = started(Manager())
        for what, number, looks in script:
            if what == "interval":
                request.set_stream_interval(0, number)
            else:
                await client.step(number, looks=looks)
                assert client.tokens == client.generated[: len(client.tokens)]
        await client.step(1, last=True)
        await client.end()
        assert client.tokens == client.generated
        request.set_stream_interval(0, 4)  # the request is gone, which is nobody's fault

    asyncio.run(run())


def groups(*asked: int, steps: int = 8, tokens: int = 1) -> list[int]:
    """Return the sizes of the groups that come after each number asked for."""

    async def run() -> list[int]:
        request, client = started(Manager())
        await client.step(tokens)
        for number in asked:
            request.set_stream_interval(0, number)
            for _ in range(steps):
                await client.step(tokens)
        client.reading.cancel()
        return [len(group) for group in client.groups]

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("asked", "tokens", "expected"),
    [
        ([4], 1, [1, 4, 4]),
        ([4, 1], 1, [1, 4, 4, *[1] * 8]),
        ([1], 1, [1] * 9),
        ([3, 8], 1, [1, 3, 3, 8]),
        ([4], 3, [3, 6, 6, 6, 6]),
    ],
)
def test_groups_are_as_large_as_asked_for(
    asked: list[int], tokens: int, expected: list[int]
) -> None:
    assert groups(*asked, tokens=tokens) == expected


def test_tokens_that_wait_come_with_the_next_when_fewer_are_asked_for() -> None:
    assert groups(5, 1, steps=3) == [1, 4, 1, 1]


def test_sglang_does_not_warn_of_a_backlog(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="sglang"):
        assert groups(256, steps=3 * MAX_DELIVERED_OUTPUTS) == [1, *[MAX_DELIVERED_OUTPUTS] * 3]
    assert not caplog.records


def test_a_finish_does_not_wait_and_leaves_nothing_behind() -> None:
    async def run() -> None:
        manager = Manager()
        request, client = started(manager)
        state = manager.rid_to_state["r"]
        request.set_stream_interval(0, 8)
        await client.step(1)
        assert client.groups == []
        await client.step(1, last=True)
        assert client.tokens == [0, 1]
        assert "set" not in vars(state.event), "the state would hold itself"

    asyncio.run(run())


async def engine(_engine: Any, **arguments: Any) -> Any:
    """Stand for `Engine.async_generate` of a request with n > 1: choices get ids of their own."""
    return outputs(arguments)


async def outputs(arguments: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
    for index, rid in enumerate(["first", "second"]):
        yield {"index": index, "meta_info": {"id": rid}, **arguments}


def test_a_choice_is_ended_by_the_name_that_the_engine_gave_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def run() -> None:
        manager = Manager()
        clients = [Client(manager, rid) for rid in ("first", "second")]
        request = running(manager, n=2)
        await request.abort(1)
        assert manager.aborted == [], "not known yet, and not begun"
        sglang.CURRENT_HANDLE.set(request)
        stream = await with_request_handle(engine)(None, rid="r", sampling_params={"n": 2})
        assert sglang.CURRENT_HANDLE.get() is None, "tasks of the engine's own inherit the context"
        assert [output["index"] async for output in stream] == [0, 1]
        await request.abort(1)
        await request.abort(1)
        assert manager.aborted == ["second"]
        request.set_stream_interval(0, 3)
        for _ in range(6):
            for client in clients:
                await client.step(1)
        assert [[len(group) for group in client.groups] for client in clients] == [[3, 3], [1] * 6]
        for client in clients:
            client.reading.cancel()

    contextvars.copy_context().run(asyncio.run, run())


def test_without_a_request_of_ours_the_engine_is_left_alone() -> None:
    async def run() -> None:
        arguments = {"rid": "r", "sampling_params": {"json_schema": "{}"}}
        stream = await with_request_handle(engine)(None, **arguments)
        assert [output["rid"] async for output in stream] == ["r", "r"]

    asyncio.run(run())


@pytest.mark.parametrize("reasons", [True, False])
@pytest.mark.parametrize("grammar", [*sglang.GRAMMARS, None])
def test_a_grammar_waits_where_the_answer_begins_with_reasoning(
    grammar: str | None, reasons: bool
) -> None:
    arguments: dict[str, Any] = {
        "rid": "r",
        "sampling_params": {**GREEDY, **({grammar: "x"} if grammar else {})},
    }
    running(Manager(), reasons=reasons).prepare(arguments)
    assert arguments.get("require_reasoning", False) is (reasons and grammar is not None)


def test_what_a_frontend_says_of_reasoning_stays() -> None:
    arguments = {"rid": "r", "require_reasoning": True, "sampling_params": {"regex": "x"}}
    running(Manager(), reasons=False).prepare(arguments)
    assert arguments["require_reasoning"] is True


@pytest.mark.parametrize("before", [0, 1])
def test_what_sglang_refuses_is_the_requests_fault(before: int) -> None:
    from dynamo.llm.exceptions import InvalidArgument

    async def failing() -> AsyncIterator[dict[str, Any]]:
        for _ in range(before):
            yield {}
        raise ValueError("longer than the context")

    async def run() -> None:
        async for _ in running(Manager()).outputs(failing):
            pass

    with pytest.raises(ValueError if before else InvalidArgument, match="longer than the context"):
        contextvars.copy_context().run(asyncio.run, run())
