"""SGLang's engine: the tests of vLLM's, and those of what only SGLang has."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import openai
import pytest
from backedge.cli.main import main
from click.testing import CliRunner

from tests.e2e import test_errors, test_requests
from tests.e2e.client import HTTP, Client, Response, ask_all, eventually, whole
from tests.e2e.conftest import (
    AUTO_PARSERS,
    BACKEDGE_MODEL,
    MAX_MODEL_LEN,
    PLAIN_MODEL,
    VLLM_PARSERS,
    Fleet,
)
from tests.e2e.forked import ForkingStack
from tests.e2e.test_bad_requests import SENT, send_all
from tests.e2e.test_requests import (  # noqa: F401 - the same tests, on this file's fleet
    STREAMED,
    test_choices_may_finish_at_different_times,
    test_dynamos_own_metrics_count_every_token,
    test_every_choice_is_whole,
    test_hidden_reasoning,
    test_logprobs_name_every_token,
    test_logprobs_without_alternatives_and_as_token_ids,
    test_max_tokens_and_ignore_eos,
    test_probabilities_of_the_prompt,
    test_stop_strings,
    test_stop_token_ids,
    test_token_ids_are_complete,
    test_tool_choice_none_leaves_the_text_alone,
    test_usage_as_the_client_asks,
)
from tests.e2e.test_transcripts import check, stock_answers
from tests.engines.frontends.bad_requests import BEYOND_SMALL_CONTEXT
from tests.pairwise import select
from tests.support import TRANSCRIPTS, Transcript, encode
from tools.stack import (
    HUGGINGFACE_FRONTEND,
    SGLANG_ENGINE,
    STOCK_FRONTEND,
    TINY_MODEL,
    Process,
    Stack,
    free_port,
    metric,
)

# SGLang's own flags, so a plain worker has them, too; --dyn-reasoning-parser is for stock
# frontends.
PARSERS = (
    *("--tool-call-parser", "hermes", "--reasoning-parser", "qwen3"),
    *("--dyn-reasoning-parser", "qwen3"),
    # Unless limited to forced calls, Dynamo's grammar forbids spaces that the example model writes.
    *("--dyn-structural-tag", '{"scope": "auto"}'),
)
LONG_CONTEXT = ("--context-length", str(MAX_MODEL_LEN), "--max-total-tokens", str(MAX_MODEL_LEN))
LONG_CONTEXT_ALLOWED = {"SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN": "1"}
ENGINE = (*PARSERS, *LONG_CONTEXT, "--enable-metrics")
NATIVE = (
    *("--postprocess-parsers", "native", "--postprocess-workers", "2"),
    *("--postprocess-detokenizer", "native"),
)
POOLED_MODEL = "pooled"
VLLM_MODEL = "of-vllm"
client = test_requests.client


@dataclass
class Engines(Fleet):
    """SGLang's `worker`, `plain` and `pooled`, and a vLLM worker that serves `VLLM_MODEL`.

    frontend: picks an edge for each model. edges: Backedge's frontends by what makes the prompts.
    pooled: has SGLang's own parsers, in processes. recorded: folders of recordings, by model.
    """

    edges: dict[str, Process]
    pooled: Process
    recorded: dict[str, Path]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engines]:
    root = tmp_path_factory.mktemp("sglang")
    with (
        Stack(root, **LONG_CONTEXT_ALLOWED) as stack,
        ForkingStack(root / "forked", **stack.environment) as forked,
    ):
        # In one namespace, a frontend would send each model's requests to all workers.
        folder = tmp_path_factory.mktemp("recorded")
        recorded = {model: folder / model for model in (BACKEDGE_MODEL, VLLM_MODEL)}
        record = {
            model: ("--postprocess-record", str(path), "--postprocess-record-content", "on")
            for model, path in recorded.items()
        }
        worker = stack.sglang(
            *("--sglang-processing", *ENGINE, *AUTO_PARSERS, *record[BACKEDGE_MODEL]),
            wait=False,
            DYN_NAMESPACE="processing",
        )
        plain = forked.sglang(*ENGINE, name=PLAIN_MODEL, wait=False, DYN_NAMESPACE="plain")
        forked.worker(
            *("--vllm-processing", *AUTO_PARSERS, *record[VLLM_MODEL]),
            name=VLLM_MODEL,
            wait=False,
            DYN_NAMESPACE="vllm",
        )
        # Started with our module, since SGLang is told to leave the plugin out.
        pooled = forked.sglang(
            *("--sglang-processing", *PARSERS, *NATIVE),
            name=POOLED_MODEL,
            module="backedge.worker.sglang",
            wait=False,
            SGLANG_PLUGINS="another",
            DYN_NAMESPACE="pooled",
        )
        frontend = forked.frontend(*AUTO_PARSERS, wait=False)
        huggingface = stack.frontend(*VLLM_PARSERS, command=HUGGINGFACE_FRONTEND, wait=False)
        vllm = forked.frontend(*AUTO_PARSERS, "--tokenizer-backend", "vllm", wait=False)
        stock = stack.frontend(command=STOCK_FRONTEND, wait=False)
        for each in (frontend, huggingface, vllm, stock):
            for model in (BACKEDGE_MODEL, PLAIN_MODEL, POOLED_MODEL, VLLM_MODEL):
                stack.wait_for_model(each, model)
        edges = {"sglang": frontend, "huggingface": huggingface, "vllm": vllm}
        processes = worker, plain, frontend, stock, stock
        yield Engines(stack, *processes, "sglang", edges, pooled, recorded)


def as_sglang(tool: dict[str, Any]) -> dict[str, Any]:
    """Return a tool in the form in which SGLang gives it to the template."""
    # Late, as `load_tokenizer` imports transformers.
    from sglang.srt.entrypoints.openai.protocol import Tool

    spell_tools: dict[str, Any] = Tool(**tool).model_dump()
    return spell_tools


EDGES = ("sglang", "huggingface", "vllm")
UNFORCED = {name for name, transcript in TRANSCRIPTS.items() if "tool_choice" not in transcript}
# The transcripts that each model gives exactly behind one of the edges.
EXACT = {
    (BACKEDGE_MODEL, "sglang"): TRANSCRIPTS.keys(),
    (BACKEDGE_MODEL, "huggingface"): TRANSCRIPTS.keys(),
    (BACKEDGE_MODEL, "vllm"): TRANSCRIPTS.keys(),
    # Of a call that is cut, SGLang's parser keeps the last token's text to itself.
    (POOLED_MODEL, "vllm"): TRANSCRIPTS.keys() - {"cut_call"},
    (PLAIN_MODEL, "sglang"): TRANSCRIPTS.keys(),
    (PLAIN_MODEL, "vllm"): TRANSCRIPTS.keys(),
}
ROWS = select(
    [
        (served, name, stream)
        for served, names in EXACT.items()
        for name in TRANSCRIPTS
        if name in names
        for stream in (True, False)
    ]
)
IDS = [
    f"{name}-{model}-{edge}-{'stream' if stream else 'whole'}"
    for (model, edge), name, stream in ROWS
]
Served = tuple[str, str]


@pytest.fixture(scope="module")
def answers(fleet: Engines) -> dict[tuple[Served, str, bool], Future[Response]]:
    """All rows of the matrix, asked at once."""
    return ask_all(
        {
            (served, name, stream): partial(
                Client(fleet.edges[served[1]].url, served[0]).ask, TRANSCRIPTS[name], stream=stream
            )
            for served, name, stream in ROWS
        }
    )


@pytest.mark.parametrize(("served", "name", "stream"), ROWS, ids=IDS)
def test_gives_exactly_the_transcript(
    answers: dict[tuple[Served, str, bool], Future[Response]],
    served: Served,
    name: str,
    stream: bool,
) -> None:
    # A plain worker's frontend makes the prompt as vLLM does.
    spell_tools = dict if served[0] == PLAIN_MODEL else as_sglang
    response = answers[served, name, stream].result()
    check(response, TRANSCRIPTS[name], stream=stream, spell_tools=spell_tools)


def test_sglangs_own_parsers_are_in_processes(fleet: Engines) -> None:
    client = Client(fleet.edges["vllm"].url, POOLED_MODEL)
    assert client.ask(TRANSCRIPTS["tool_call"]).message == TRANSCRIPTS["tool_call"]["expect"]
    assert eventually(lambda: metric(fleet.pooled.url, "backedge_pool_processes") == 2)


def test_a_named_call_is_held_to_json_without_an_engines_edge(fleet: Engines) -> None:
    answer = (
        Client(fleet.edges["huggingface"].url, BACKEDGE_MODEL)
        .ask(TRANSCRIPTS["named_choice"])
        .answer
    )
    (call,) = answer.tool_calls
    assert (call["name"], answer.content, answer.finish_reason) == (
        "get_weather",
        None,
        "tool_calls",
    )
    assert {"city"} <= {*json.loads(call["arguments"])} <= {"city", "unit"}


class TestWithoutDynamosGrammarForCalls:
    """What the example model answers only where it may put spaces."""

    @pytest.fixture(params=[BACKEDGE_MODEL, PLAIN_MODEL], ids=["in the worker", "in the frontend"])
    def client(self, request: pytest.FixtureRequest, fleet: Engines) -> Client:
        return Client(fleet.edges["huggingface"].url, request.param)

    test_parallel_tool_calls = staticmethod(
        test_requests.test_parallel_tool_calls_false_generates_no_surplus
    )


def count_requests(folder: Path) -> int:
    return sum(len(path.read_bytes().splitlines()) for path in folder.glob("*.jsonl"))


@pytest.mark.parametrize("model", [BACKEDGE_MODEL, VLLM_MODEL])
def test_what_an_engine_has_generated_replays_to_what_was_sent(fleet: Engines, model: str) -> None:
    """That of this test and of all before it: streams and whole answers, stops, cancellations."""
    client, folder = Client(fleet.frontend.url, model), fleet.recorded[model]
    before, names = count_requests(folder), ("reasoning_call", "parallel_calls")
    for name in names:
        client.ask(TRANSCRIPTS[name])
    assert eventually(lambda: count_requests(folder) >= before + len(names))
    for path in folder.glob("*.jsonl"):
        result = CliRunner().invoke(main, ["replay", str(path), "--json"])
        replayed = [json.loads(line) for line in result.stdout.splitlines()]
        assert len(replayed) >= len(names)
        assert [each for each in replayed if not each["equal"]] == []


class TestPostProcessedInTheWorker:
    """What a plain worker's chunks are not tested for."""

    @pytest.fixture
    def client(self, fleet: Engines) -> Client:
        return Client(fleet.frontend.url, BACKEDGE_MODEL)

    test_a_client_that_leaves = staticmethod(test_errors.test_a_client_that_leaves_ends_generation)
    test_a_stop_match = staticmethod(test_errors.test_a_stop_match_ends_generation)
    test_a_bad_grammar = staticmethod(
        test_errors.test_a_grammar_that_only_the_worker_can_judge_is_400
    )
    test_bad_values = staticmethod(test_errors.test_bad_values_are_400_with_the_field)
    test_cached_tokens = staticmethod(test_requests.test_cached_tokens)
    test_structured_output = staticmethod(test_requests.test_structured_output_is_json)

    @STREAMED
    def test_more_tokens_than_the_context_holds_are_400(self, client: Client, stream: bool) -> None:
        with pytest.raises(
            openai.BadRequestError, match=f"maximum context length of {MAX_MODEL_LEN}"
        ):
            client.ask(TRANSCRIPTS["plain_text"], stream=stream, max_tokens=MAX_MODEL_LEN)


@STREAMED
def test_stock_frontends_see_no_difference(fleet: Engines, stream: bool) -> None:
    with_plugin, without = (
        stock_answers(fleet, "stock", model, stream, tuple(sorted(UNFORCED)))
        for model in (BACKEDGE_MODEL, PLAIN_MODEL)
    )
    assert with_plugin == without


@STREAMED
@pytest.mark.parametrize(
    "name", ["plain_text", "reasoning_call", "parallel_calls", "multilingual_text"]
)
def test_one_frontend_serves_both_engines_at_once(fleet: Engines, stream: bool, name: str) -> None:
    for model in (VLLM_MODEL, BACKEDGE_MODEL):
        answer = Client(fleet.frontend.url, model).ask(TRANSCRIPTS[name], stream=stream)
        assert answer.message == TRANSCRIPTS[name]["expect"]


@pytest.mark.parametrize(
    ("edge", "model"),
    [*((edge, BACKEDGE_MODEL) for edge in EDGES), ("sglang", PLAIN_MODEL)],
)
def test_the_engine_lives_after_every_bad_request(fleet: Engines, edge: str, model: str) -> None:
    url = fleet.edges[edge].url
    rows = [bad for bad in SENT if bad.fields.get("messages") != BEYOND_SMALL_CONTEXT]
    send_all(url, model, rows, is_streamed=lambda number: number % 2 == 0)
    fleet.worker.check()
    fleet.plain.check()
    answer = Client(url, model).ask(TRANSCRIPTS["plain_text"])
    assert answer.message == TRANSCRIPTS["plain_text"]["expect"]


@pytest.fixture(scope="module")
def server(fleet: Engines) -> Iterator[openai.OpenAI]:
    """SGLang's own server."""
    port = free_port()
    flags = (*PARSERS[:4], *LONG_CONTEXT, "--port", str(port), "--nccl-port", str(free_port()))
    model = ("--model-path", str(TINY_MODEL), "--served-model-name", BACKEDGE_MODEL)
    process = fleet.stack.start(
        ("-m", "sglang.launch_server", *model, *SGLANG_ENGINE, *flags), port
    )
    process.wait_for(process.answers)
    yield openai.OpenAI(
        base_url=process.url + "/v1", api_key="none", max_retries=0, http_client=HTTP
    )
    process.kill()  # it looks for a SIGTERM every five seconds


LETTERS = "stop_string"
LENGTH = len(encode(TRANSCRIPTS[LETTERS]["output"]))
COMMA = encode(TRANSCRIPTS[LETTERS]["output"])[4]
# Dynamo's HTTP layer lets these through in `metadata` only.
OPTIONS = ("no_stop_trim", "stop_token_ids", "spaces_between_special_tokens")
# A transcript, and fields of the request in SGLang's words.
RULES: list[tuple[str, dict[str, Any]]] = [
    (LETTERS, {}),
    (LETTERS, {"stop": ["gamma"]}),
    (LETTERS, {"stop": ["not there", "eta, the", "zeta"]}),
    (LETTERS, {"stop": ["gamma"], "no_stop_trim": True}),
    (LETTERS, {"stop": [" beta, gamma, de"], "no_stop_trim": True}),
    (LETTERS, {"skip_special_tokens": False}),
    (LETTERS, {"skip_special_tokens": False, "no_stop_trim": True}),
    (
        LETTERS,
        {
            "skip_special_tokens": False,
            "no_stop_trim": True,
            "spaces_between_special_tokens": False,
        },
    ),
    (LETTERS, {"no_stop_trim": True}),
    (LETTERS, {"stop_token_ids": [COMMA]}),
    (LETTERS, {"stop_token_ids": [COMMA], "no_stop_trim": True}),
    (LETTERS, {"max_tokens": LENGTH + 5, "ignore_eos": True}),
    (LETTERS, {"max_tokens": LENGTH + 5, "ignore_eos": True, "skip_special_tokens": False}),
    (LETTERS, {"max_tokens": LENGTH + 5, "ignore_eos": True, "stop_token_ids": [COMMA]}),
    (LETTERS, {"max_tokens": LENGTH + 9, "min_tokens": LENGTH + 4}),
    (LETTERS, {"max_tokens": LENGTH + 9, "min_tokens": LENGTH + 4, "skip_special_tokens": False}),
    (LETTERS, {"max_tokens": 7}),
    (LETTERS, {"max_tokens": LENGTH}),
    ("reasoning_text", {}),
    ("reasoning_text", {"stop": ["sum is"], "no_stop_trim": True}),
    ("reasoning_text", {"max_tokens": 9}),
    ("reasoning_text", {"skip_special_tokens": False, "no_stop_trim": True}),
    ("multilingual_text", {}),
    *(
        (name, {})
        for name in (
            "tool_call",
            "parallel_calls",
            "reasoning_call",
            "nested_arguments",
            "zero_arguments",
        )
    ),
    ("after_tool_result", {}),
]


def ask_server(server: openai.OpenAI, transcript: Transcript, fields: dict[str, Any]) -> Response:
    extra = {
        "chat_template_kwargs": transcript.get("chat_template_kwargs", {}),
        "stop": None,
        **fields,
    }
    if "tools" in transcript:
        extra["tools"] = transcript["tools"]
    messages = transcript["messages"]
    return whole(
        server.chat.completions.create(
            model=BACKEDGE_MODEL, messages=messages, temperature=0, extra_body=extra
        )
    )


def ask_backedge(
    fleet: Engines, transcript: Transcript, fields: dict[str, Any], *, stream: bool
) -> Response:
    metadata = {"backedge": {field: value for field, value in fields.items() if field in OPTIONS}}
    extra = {field: value for field, value in fields.items() if field not in OPTIONS}
    extra["chat_template_kwargs"] = transcript.get("chat_template_kwargs", {})
    client = Client(fleet.frontend.url, BACKEDGE_MODEL)
    return client.ask(transcript, stream=stream, stop=None, metadata=metadata, extra_body=extra)


@pytest.fixture(scope="module")
def compared(
    fleet: Engines, server: openai.OpenAI
) -> dict[tuple[int, bool | None], Future[Response]]:
    """The answers to `RULES`, by their number and `stream`; None for the server's."""
    asks: dict[tuple[int, bool | None], Callable[[], Response]] = {}
    for number, (name, fields) in enumerate(RULES):
        transcript = TRANSCRIPTS[name]
        asks[number, None] = partial(ask_server, server, transcript, fields)
        for stream in (True, False):
            asks[number, stream] = partial(ask_backedge, fleet, transcript, fields, stream=stream)
    return ask_all(asks)


@STREAMED
@pytest.mark.parametrize(
    "number", range(len(RULES)), ids=[f"{name} {fields}" for name, fields in RULES]
)
def test_the_text_is_that_of_sglangs_own_server(
    compared: dict[tuple[int, bool | None], Future[Response]], stream: bool, number: int
) -> None:
    theirs, ours = compared[number, None].result(), compared[number, stream].result()
    assert ours.message == {**theirs.message, "content": theirs.answer.content or None}
    assert ours.usage.completion_tokens == theirs.usage.completion_tokens
    assert ours.usage.prompt_tokens == theirs.usage.prompt_tokens
