"""vLLM's adapter: what it checks before the engine loads, and its requests.

`VllmRequestHandle` runs against vLLM's own output processor: whatever is asked for, every
token comes once and in order.
"""

from __future__ import annotations

import argparse
import asyncio
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from backedge.base.errors import SetupError, UnknownParserError
from backedge.engines.vllm import worker as vllm
from backedge.engines.vllm.worker import VllmRequestHandle
from backedge.parsers.base import ParserNames
from backedge.postprocess.settings import PostprocessSettings
from backedge.worker import flags
from hypothesis import given, settings
from hypothesis import strategies as st
from vllm.sampling_params import RequestOutputKind, SamplingParams
from vllm.v1.engine import EngineCoreOutput, EngineCoreRequest, FinishReason
from vllm.v1.engine.output_processor import OutputProcessor, RequestOutputCollector
from vllm.v1.engine.parallel_sampling import ParentRequest

from tests.parsers.made_up import ENDLESS_NAME
from tests.support import TINY_MODEL

SETTINGS = flags.WorkerSettings()


def config(mode="agg", **fields):
    defaults = {
        "use_vllm_tokenizer": False,
        "embedding_worker": False,
        "classify_worker": False,
        "headless": False,
        "enable_rl": False,
        "dyn_tool_call_parser": None,
        "dyn_reasoning_parser": None,
    }
    return SimpleNamespace(
        disaggregation_mode=SimpleNamespace(value=mode), **{**defaults, **fields}
    )


def test_text_mode_is_refused():
    with pytest.raises(SetupError, match="--use-vllm-tokenizer"):
        vllm.VllmWorker.enable(config(use_vllm_tokenizer=True), SETTINGS)


def test_unknown_names_are_refused_with_the_known_ones():
    with pytest.raises(UnknownParserError, match="hermes"):
        vllm.VllmWorker.enable(config(), flags.WorkerSettings(names=ParserNames("nope")))
    with pytest.raises(UnknownParserError, match="deepseek_r1"):
        vllm.VllmWorker.enable(config(), flags.WorkerSettings(names=ParserNames(reasoning="nope")))


@pytest.mark.parametrize(
    ("worker", "expected"),
    [
        *((config(mode), True) for mode in ("agg", "decode")),
        *((config(mode), False) for mode in ("prefill", "encode")),
        (config(embedding_worker=True), False),
        (config(classify_worker=True), False),
        (config(headless=True), False),
    ],
)
def test_who_post_processes(worker, expected):
    assert vllm.VllmWorker(worker, SETTINGS).post_processes() is expected


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], None),
        (["--vllm-processing"], flags.WorkerSettings()),
        (
            ["--native-framework-processing", "--tool-call-parser", "x"],
            flags.WorkerSettings(names=ParserNames("x")),
        ),
        (
            ["--vllm-processing", "--postprocess-on-error", "fail"],
            flags.WorkerSettings(postprocess=PostprocessSettings(on_error="fail")),
        ),
    ],
)
def test_flags(arguments, expected):
    parser = argparse.ArgumentParser()
    parser.add_argument("--reasoning-parser")
    flags.add_flags(parser, "vllm")
    assert flags.read_settings(parser.parse_args(arguments), "vllm") == expected


def test_flags_that_the_parser_has_are_left_to_it():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tool-call-parser", default="its own")
    flags.add_flags(parser, "vllm")
    assert parser.parse_args([]).tool_call_parser == "its own"


# The reasoning parser that is named, and what vLLM gets of it.
ENGINES_PART = [
    ("qwen3", "qwen3"),
    ("deepseek-r1", "deepseek_r1"),  # SGLang's name
    ("apertus", ""),  # a format that vLLM has no parser for
    (ENDLESS_NAME, ""),  # a description that no table holds
    ("nope", "nope"),  # nobody's, which vLLM refuses
    ("", ""),
]


@pytest.mark.parametrize(("given_name", "left"), ENGINES_PART)
def test_the_engine_gets_a_reasoning_parser_that_it_has(given_name, left):
    arguments = argparse.Namespace(reasoning_parser=given_name, model="m")
    assert vllm.engine_part(arguments) == argparse.Namespace(reasoning_parser=left, model="m")
    assert arguments.reasoning_parser == given_name


@pytest.mark.parametrize(
    ("words", "names", "engines"),
    [
        (["--vllm-processing"], ParserNames("hermes", "qwen3"), "qwen3"),
        ([], None, "auto"),  # for vLLM to refuse
    ],
)
def test_auto_is_resolved_before_the_engine_sees_it(words, names, engines, monkeypatch):
    from dynamo.vllm import args

    seen, enabled = [], []

    def build_config(dynamo_config, vllm_args):
        seen.append(vllm_args.reasoning_parser)
        return dynamo_config

    monkeypatch.setattr(args, "_build_config", build_config)
    monkeypatch.setattr(vllm.VllmWorker, "enable", lambda _, found: enabled.append(found.names))
    vllm.watch_arguments()
    parser = argparse.ArgumentParser()
    for flag in ("--model", "--tokenizer", "--reasoning-parser"):
        parser.add_argument(flag)
    flags.add_flags(parser, "vllm")
    auto = ("--tool-call-parser", "auto", "--reasoning-parser", "auto")
    arguments = parser.parse_args(["--model", str(TINY_MODEL), *auto, *words])
    args._build_config(SimpleNamespace(custom_jinja_template=None), arguments)
    assert seen == [engines]
    assert enabled == ([names] if names else [])


NAME, INTERNAL = "request-1", "request-1-a5c3"


class Engine:
    """vLLM's AsyncLLM, as far as it is asked; adds requests as `AsyncLLM.add_request` does."""

    def __init__(self, n: int, stream_interval: int = 1) -> None:
        self.output_processor = OutputProcessor(
            None, log_stats=False, stream_interval=stream_interval
        )
        self.queue = RequestOutputCollector(RequestOutputKind.DELTA, INTERNAL)
        self.aborted: list[str] = []
        params = SamplingParams(
            n=n, detokenize=False, output_kind=RequestOutputKind.DELTA, max_tokens=10_000
        )
        request = self._request(INTERNAL, params)
        if n == 1:
            self.output_processor.add_request(request, None, None, 0, self.queue)
            self.ids = [INTERNAL]
            return
        parent = ParentRequest(
            SimpleNamespace(request_id=INTERNAL, external_req_id=NAME, params=params)
        )
        self.ids = []
        for index in range(n):
            child, child_params = parent.get_child_info(index)
            self.output_processor.add_request(
                self._request(child, child_params), None, parent, index, self.queue
            )
            self.ids.append(child)

    def _request(self, request_id: str, params: SamplingParams) -> EngineCoreRequest:
        return EngineCoreRequest(
            request_id=request_id,
            external_req_id=NAME,
            prompt_token_ids=[1, 2, 3],
            mm_features=None,
            sampling_params=params,
            pooling_params=None,
            arrival_time=0.0,
            lora_request=None,
            cache_salt=None,
            data_parallel_rank=None,
        )

    async def abort(self, request_id: str | list[str], internal: bool = False) -> None:
        ids = [request_id] if isinstance(request_id, str) else list(request_id)
        self.aborted += self.output_processor.abort_requests(ids, internal)

    def step(self, tokens: dict[int, list[int]], ends: FinishReason | None = None) -> None:
        """Do a step of the engine: new tokens by choice."""
        outputs = [
            EngineCoreOutput(
                request_id=self.ids[index], new_token_ids=list(token_ids), finish_reason=ends
            )
            for index, token_ids in tokens.items()
        ]
        self.output_processor.process_outputs(outputs)


@dataclass
class Client:
    """What has come out: tokens by choice, in the groups they came in, and the finish_reasons."""

    engine: Engine
    groups: dict[int, list[list[int]]] = field(default_factory=dict)
    finished: dict[int, list[str]] = field(default_factory=dict)

    def read(self) -> None:
        """Take what vLLM's generate loop would get now."""
        while (out := self.engine.queue.get_nowait()) is not None:
            for completion in out.outputs:
                if completion.token_ids:
                    self.groups.setdefault(completion.index, []).append(list(completion.token_ids))
                if completion.finish_reason is not None:
                    self.finished.setdefault(completion.index, []).append(completion.finish_reason)

    def tokens(self, index: int) -> list[int]:
        return [token_id for group in self.groups.get(index, []) for token_id in group]


# What happens: tokens of a choice, a request for groups of a choice, or the client looks.
events = st.lists(
    st.one_of(
        st.tuples(
            st.just("step"),
            st.sets(st.integers(0, 1), min_size=1),
            st.sampled_from([1, 1, 1, 2, 5]),
        ),
        st.tuples(st.just("interval"), st.integers(0, 1), st.sampled_from([1, 1, 2, 3, 4, 8, 256])),
        st.tuples(st.just("read"), st.none(), st.none()),
    ),
    max_size=60,
)


@dataclass
class Run:
    """One request to the engine, whatever happens to it."""

    n: int
    stream_interval: int = 1

    def __post_init__(self) -> None:
        self.engine = Engine(self.n, self.stream_interval)
        self.running = VllmRequestHandle(self.engine, NAME, self.n)
        self.client = Client(self.engine)
        self.generated: list[list[int]] = [[] for _ in range(self.n)]

    def generate(self, index: int, count: int) -> list[int]:
        start = 1000 * index + len(self.generated[index])
        new = list(range(start, start + count))
        self.generated[index] += new
        return new

    def play(self, script: list[Any]) -> None:
        for what, which, number in script:
            if what == "step":
                chosen = {index % self.n for index in which}
                self.engine.step({index: self.generate(index, number) for index in sorted(chosen)})
            elif what == "interval":
                self.running.set_stream_interval(which % self.n, number)
            else:
                self.client.read()

    def check(self) -> None:
        self.client.read()
        for index in range(self.n):
            assert self.client.tokens(index) == self.generated[index]


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("stream_interval", [1, 4])
@settings(max_examples=400, deadline=None, database=None)
@given(script=events, last=st.integers(0, 2))
def test_every_token_comes_once_and_in_order(
    n: int, stream_interval: int, script: list[Any], last: int
) -> None:
    run = Run(n, stream_interval)
    run.play(script)
    run.client.read()
    for index in range(n):
        assert run.client.tokens(index) == run.generated[index][: len(run.client.tokens(index))]
    run.engine.step({index: run.generate(index, last) for index in range(n)}, FinishReason.LENGTH)
    run.check()
    assert run.client.finished == {index: ["length"] for index in range(n)}
    run.running.set_stream_interval(0, 3)  # the request is gone, which is nobody's fault


@settings(max_examples=200, deadline=None, database=None)
@given(script=events, n=st.integers(1, 2), index=st.integers(0, 1))
def test_a_choice_that_is_ended_gives_all_it_has(script: list[Any], n: int, index: int) -> None:
    run = Run(n)
    run.play(script)
    index %= n
    asyncio.run(run.running.abort(index))
    assert run.engine.aborted == [run.engine.ids[index]]
    run.client.read()
    assert run.client.tokens(index) == run.generated[index]
    before = list(run.generated[index])
    for other in range(n):
        run.engine.step({other: run.generate(other, 2)}, FinishReason.STOP)
    run.client.read()
    assert run.client.tokens(index) == before, "nothing comes after the end"
    assert run.client.finished[index] == ["abort"]
    for other in {*range(n)} - {index}:
        assert run.client.tokens(other) == run.generated[other], "the other choice goes on"
        assert run.client.finished[other] == ["stop"]


@pytest.mark.parametrize("n", [1, 2])
def test_groups_are_as_large_as_asked_for(n: int) -> None:
    run = Run(n)
    steady = [("step", {n - 1}, 1), ("read", None, None)]
    run.play(
        [*steady * 3, ("interval", n - 1, 4), *steady * 8, ("interval", n - 1, 1), *steady * 5]
    )
    assert [len(group) for group in run.client.groups[n - 1]] == [1, 1, 1, 4, 4, 1, 1, 1, 1, 1]
    assert run.client.groups.keys() == {n - 1}, "the other choice is left alone"


def test_tokens_that_wait_in_the_engine_are_not_lost_with_the_way_back_to_single_ones() -> None:
    """An interval of 1 would lose them, so it becomes one of 2."""
    run = Run(1)
    one = [("step", {0}, 1), ("read", None, None)]
    run.play([*one, ("interval", 0, 8), *one * 3, ("interval", 0, 1), *one * 5])
    assert [len(group) for group in run.client.groups[0]] == [1, 4, 2, 2]


def test_an_engine_that_collects_anyway_is_not_asked_for_less() -> None:
    run = Run(1, stream_interval=4)
    one = [("step", {0}, 1), ("read", None, None)]
    run.play([*one * 5, ("interval", 0, 2), *one * 8])
    assert [len(group) for group in run.client.groups[0]] == [1, 4, 4, 4]


def test_a_choice_is_not_taken_for_one_whose_number_begins_alike() -> None:
    run = Run(12)
    asyncio.run(run.running.abort(1))
    assert run.engine.aborted == [f"1_{INTERNAL}"]


def test_a_request_that_the_engine_does_not_know() -> None:
    run = Run(1)
    unknown = VllmRequestHandle(run.engine, "another", 1)
    unknown.set_stream_interval(0, 4)
    asyncio.run(unknown.abort(0))
    assert run.engine.aborted == []
    assert "another" not in run.engine.output_processor.external_req_ids, (
        "asking leaves nothing behind"
    )
