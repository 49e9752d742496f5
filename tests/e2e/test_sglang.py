"""SGLang's engine: what vLLM's is tested for, on SGLang's, and what only SGLang has."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import openai
import pytest
from sglang.srt.entrypoints.openai.protocol import Tool

from tests.e2e import test_errors, test_requests
from tests.e2e.client import TIMEOUT_S, Client, Response, whole
from tests.e2e.conftest import BACKEDGE_MODEL, MAX_MODEL_LEN, PLAIN_MODEL, VLLM_PARSERS, Fleet
from tests.e2e.test_requests import (  # noqa: F401 - the same tests, on this file's fleet
    STREAMED,
    test_choices_may_finish_at_different_times,
    test_dynamos_own_metrics_count_every_token,
    test_every_choice_is_whole,
    test_hidden_reasoning,
    test_logprobs_name_every_token,
    test_logprobs_without_alternatives_and_as_token_ids,
    test_max_tokens_and_ignore_eos,
    test_stop_strings,
    test_stop_token_ids,
    test_token_ids_are_complete,
    test_tool_choice_none_leaves_the_text_alone,
    test_usage_as_the_client_asks,
)
from tests.e2e.test_transcripts import check, stock_answers
from tests.support import TRANSCRIPTS, Transcript, encode
from tools.stack import (
    LIGHT_FRONTEND,
    SGLANG_CPU_ENGINE,
    STOCK_FRONTEND,
    TINY_MODEL,
    Process,
    Stack,
    free_port,
    metric,
)

# SGLang's own flags, so a plain worker has them, too; the last but one is for stock frontends.
PARSERS = (
    *(
        "--tool-call-parser",
        "hermes",
        "--reasoning-parser",
        "qwen3",
        "--dyn-reasoning-parser",
        "qwen3",
    ),
    # Where nobody forces a call, Dynamo's grammar leaves out spaces that the example model has learned to write.
    *("--dyn-structural-tag", '{"scope": "auto"}'),
)
LONG_CONTEXT = ("--context-length", str(MAX_MODEL_LEN), "--max-total-tokens", str(MAX_MODEL_LEN))
LONG_CONTEXT_ALLOWED = {"SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN": "1"}
ENGINE = (*PARSERS, *LONG_CONTEXT, "--enable-metrics")
NATIVE = ("--postprocess-parsers", "native", "--postprocess-workers", "2")
VLLM_MODEL = "of-vllm"
client = test_requests.client


@dataclass
class Engines(Fleet):
    """SGLang's `worker` and `plain`, and a worker of vLLM's that serves `VLLM_MODEL`.

    frontend: picks an edge for each model. edges: more of ours, by what makes the prompts.
    """

    edges: dict[str, Process] = field(default_factory=dict)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engines]:
    with Stack(tmp_path_factory.mktemp("sglang"), **LONG_CONTEXT_ALLOWED) as stack:
        # Namespaces of their own: a frontend would send one model's requests to all workers of an endpoint.
        worker = stack.sglang(
            "--sglang-processing", *ENGINE, wait=False, DYN_NAMESPACE="processing"
        )
        plain = stack.sglang(*ENGINE, name=PLAIN_MODEL, wait=False, DYN_NAMESPACE="plain")
        stack.worker(
            "--vllm-processing", *VLLM_PARSERS, name=VLLM_MODEL, wait=False, DYN_NAMESPACE="vllm"
        )
        frontend = stack.frontend(*VLLM_PARSERS, wait=False)
        light = stack.frontend(*VLLM_PARSERS, command=LIGHT_FRONTEND, wait=False)
        vllm = stack.frontend(*VLLM_PARSERS, "--tokenizer-backend", "vllm", wait=False)
        stock = stack.frontend(command=STOCK_FRONTEND, wait=False)
        for edge in (frontend, light, vllm, stock):
            for model in (BACKEDGE_MODEL, PLAIN_MODEL, VLLM_MODEL):
                stack.wait_for_model(edge, model)
        edges = {"sglang": frontend, "huggingface": light, "vllm": vllm}
        yield Engines(stack, worker, plain, frontend, stock, stock, engine="sglang", edges=edges)


@pytest.fixture(scope="module")
def pooled(fleet: Engines) -> Iterator[Process]:
    """A worker with SGLang's own parsers, in processes; started by us, since SGLang is told to leave the plugin out."""
    flags = ("--sglang-processing", *PARSERS, *NATIVE)
    worker = fleet.stack.sglang(
        *flags,
        name="pooled",
        module="backedge.worker.sglang",
        SGLANG_PLUGINS="another",
        DYN_NAMESPACE="pooled",
    )
    fleet.stack.wait_for_model(fleet.edges["vllm"], "pooled")
    yield worker
    worker.terminate()
    worker.reap()


def as_sglang(tool: dict[str, Any]) -> dict[str, Any]:
    """Return a tool as SGLang gives it to the template."""
    spell_tools: dict[str, Any] = Tool(**tool).model_dump()
    return spell_tools


UNFORCED = [name for name, transcript in TRANSCRIPTS.items() if "tool_choice" not in transcript]
# Only vLLM's edge has a forced call written as the model has learned it.
AS_RECORDED = [
    (edge, TRANSCRIPTS[name])
    for edge, names in (("sglang", UNFORCED), ("huggingface", UNFORCED), ("vllm", TRANSCRIPTS))
    for name in names
]


@STREAMED
@pytest.mark.parametrize(
    ("edge", "transcript"),
    AS_RECORDED,
    ids=[f"{transcript['id']}-{edge}" for edge, transcript in AS_RECORDED],
)
def test_gives_exactly_the_transcript(
    fleet: Engines, edge: str, stream: bool, transcript: Transcript
) -> None:
    check(
        Client(fleet.edges[edge].url, BACKEDGE_MODEL),
        transcript,
        stream=stream,
        spell_tools=as_sglang,
    )


# Of a call that is cut, SGLang's parser keeps the last token's text to itself.
@STREAMED
@pytest.mark.parametrize("name", [name for name in TRANSCRIPTS if name != "cut_call"])
def test_sglangs_own_parsers_in_processes(
    fleet: Engines, pooled: Process, stream: bool, name: str
) -> None:
    check(
        Client(fleet.edges["vllm"].url, "pooled"),
        TRANSCRIPTS[name],
        stream=stream,
        spell_tools=as_sglang,
    )
    assert metric(pooled.url, "backedge_pool_processes") == 2


# A plain worker's engine is not told of reasoning in front of structured output.
@STREAMED
@pytest.mark.parametrize("name", [name for name in UNFORCED if name != "json_schema_reasoning"])
def test_a_plain_workers_chunks_give_the_same_in_the_frontend(
    fleet: Engines, stream: bool, name: str
) -> None:
    check(Client(fleet.frontend.url, PLAIN_MODEL), TRANSCRIPTS[name], stream=stream)


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
        stock_answers(fleet, "stock", model, stream, UNFORCED)
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


@pytest.fixture(scope="module")
def server(fleet: Engines) -> Iterator[openai.OpenAI]:
    """SGLang's own server."""
    port = free_port()
    flags = (*PARSERS[:4], *LONG_CONTEXT, "--port", str(port), "--nccl-port", str(free_port()))
    model = ("--model-path", str(TINY_MODEL), "--served-model-name", BACKEDGE_MODEL)
    process = fleet.stack.start(
        ("-m", "sglang.launch_server", *model, *SGLANG_CPU_ENGINE, *flags), port
    )
    process.wait_for(process.answers)
    yield openai.OpenAI(
        base_url=process.url + "/v1", api_key="none", max_retries=0, timeout=TIMEOUT_S
    )
    process.terminate()
    process.reap()


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


def of_server(server: openai.OpenAI, transcript: Transcript, fields: dict[str, Any]) -> Response:
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


@STREAMED
@pytest.mark.parametrize(
    ("name", "fields"), RULES, ids=[f"{name} {fields}" for name, fields in RULES]
)
def test_the_text_is_that_of_sglangs_own_server(
    fleet: Engines, server: openai.OpenAI, stream: bool, name: str, fields: dict[str, Any]
) -> None:
    transcript = TRANSCRIPTS[name]
    theirs = of_server(server, transcript, fields)
    metadata = {"backedge": {field: value for field, value in fields.items() if field in OPTIONS}}
    extra = {field: value for field, value in fields.items() if field not in OPTIONS}
    extra["chat_template_kwargs"] = transcript.get("chat_template_kwargs", {})
    asked = Client(fleet.frontend.url, BACKEDGE_MODEL)
    ours = asked.ask(transcript, stream=stream, stop=None, metadata=metadata, extra_body=extra)
    assert ours.message == {**theirs.message, "content": theirs.answer.content or None}
    assert ours.usage.completion_tokens == theirs.usage.completion_tokens
    assert ours.usage.prompt_tokens == theirs.usage.prompt_tokens
