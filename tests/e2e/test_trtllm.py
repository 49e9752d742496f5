"""`python -m dynamo.trtllm --trtllm-processing`, Dynamo's own, with a stand-in for the engine.

The stand-in (tests/standin) replays the transcripts. What passes here shows that flags, handler,
push egress, model card and metrics fit Dynamo's worker; it shows nothing of TensorRT-LLM itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import openai
import pytest

from tests.e2e import test_errors, test_requests
from tests.e2e.client import Client, ask_transcripts, eventually
from tests.e2e.conftest import (
    AUTO_PARSERS,
    BACKEDGE_MODEL,
    DYNAMO_PARSERS,
    MAX_MODEL_LEN,
    PLAIN_MODEL,
    VLLM_PARSERS,
    Fleet,
)
from tests.e2e.forked import TRTLLM, ForkingStack
from tests.e2e.test_requests import (  # noqa: F401 - the same tests, on this file's fleet
    STREAMED,
    test_choices_may_finish_at_different_times,
    test_every_choice_is_whole,
    test_logprobs_name_every_token,
    test_max_tokens_and_ignore_eos,
    test_stop_strings,
    test_token_ids_are_complete,
    test_usage_as_the_client_asks,
)
from tests.e2e.test_transcripts import check, stock_answers
from tests.support import TRANSCRIPTS, encode
from tools.stack import HUGGINGFACE_FRONTEND, STOCK_FRONTEND, Process, Stack, metric

ENGINE = ("--max-seq-len", str(MAX_MODEL_LEN), "--publish-metrics")
NATIVE_MODEL = "native"
NATIVE = (
    *("--tool-call-parser", "qwen3", "--reasoning-parser", "qwen3"),
    *("--postprocess-parsers", "native"),
)
# What the parsers of the stand-in cannot read.
NOT_NATIVE = {"cut_call"}
client = test_requests.client


@dataclass
class TrtllmFleet(Fleet):
    """`worker`, `plain` and `native` serve models of their own.

    native: has the parsers of the stand-in. routed: a frontend with the KV router.
    """

    native: Process
    routed: Process


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TrtllmFleet]:
    folder = tmp_path_factory.mktemp("trtllm")
    with (
        Stack(folder, DYN_LOG="info") as stack,
        ForkingStack(folder / "forked", **stack.environment) as forked,
    ):
        worker = stack.trtllm(
            *("--trtllm-processing", *AUTO_PARSERS, *DYNAMO_PARSERS, *ENGINE),
            wait=False,
            DYN_NAMESPACE="processing",
        )
        plain = forked.trtllm(
            *DYNAMO_PARSERS, *ENGINE, name=PLAIN_MODEL, wait=False, DYN_NAMESPACE="plain"
        )
        # Started with our module, since torch is told to load no entry points.
        native = stack.trtllm(
            *("--native-framework-processing", *NATIVE, *ENGINE),
            name=NATIVE_MODEL,
            module=TRTLLM,
            wait=False,
            TORCH_DEVICE_BACKEND_AUTOLOAD="0",
            DYN_NAMESPACE="native",
        )
        frontend = stack.frontend(
            *VLLM_PARSERS,
            command=HUGGINGFACE_FRONTEND,
            wait=False,
            DYN_HTTP_PRE_COMMIT_ERROR_PEEK_MS="30000",
        )
        routed = stack.frontend(
            *("--router-mode", "kv", "--no-router-kv-events"),
            command=HUGGINGFACE_FRONTEND,
            wait=False,
        )
        stock = stack.frontend(command=STOCK_FRONTEND, wait=False)
        for each in (frontend, routed, stock):
            for model in (BACKEDGE_MODEL, PLAIN_MODEL, NATIVE_MODEL):
                stack.wait_for_model(each, model)
        yield TrtllmFleet(forked, worker, plain, frontend, stock, stock, "trtllm", native, routed)


ROWS = [
    (frontend, model, name)
    for frontend, model in (
        ("frontend", BACKEDGE_MODEL),
        ("frontend", PLAIN_MODEL),
        ("frontend", NATIVE_MODEL),
        ("routed", BACKEDGE_MODEL),
    )
    for name in TRANSCRIPTS
    if model != NATIVE_MODEL or name not in NOT_NATIVE
]


@STREAMED
@pytest.mark.parametrize(
    ("frontend", "model", "name"), ROWS, ids=[f"{name}-{model}-{at}" for at, model, name in ROWS]
)
def test_gives_exactly_the_transcript(
    fleet: TrtllmFleet, frontend: str, model: str, name: str, stream: bool
) -> None:
    names = tuple(found for at, served, found in ROWS if (at, served) == (frontend, model))
    answers = ask_transcripts(getattr(fleet, frontend), model, names)
    response, transcript = answers[name, stream].result(), TRANSCRIPTS[name]
    if "tool_choice" in transcript:
        # Guided decoding makes plain JSON of a forced call, which has fewer tokens.
        assert response.message == transcript["expect"]
    else:
        check(response, transcript, stream=stream)


def test_the_worker_has_post_processed(fleet: TrtllmFleet) -> None:
    """And the handler kept Dynamo's push egress: a worker says so if it pulls instead."""
    chunks = "backedge_chunks_total"
    transcript = TRANSCRIPTS["parallel_calls"]
    before = metric(fleet.worker.url, chunks)
    client = Client(fleet.frontend.url, BACKEDGE_MODEL)
    assert client.ask(transcript).message == transcript["expect"]
    assert eventually(lambda: metric(fleet.worker.url, chunks) > before)
    assert metric(fleet.plain.url, chunks) == 0
    for worker in (fleet.worker, fleet.native):
        assert "serving this call on the pull path" not in worker.log.read_text()


@STREAMED
def test_stock_frontends_see_no_difference(fleet: TrtllmFleet, stream: bool) -> None:
    with_plugin, without = (
        stock_answers(fleet, "stock", model, stream, ("plain_text", "count", "multilingual_text"))
        for model in (BACKEDGE_MODEL, PLAIN_MODEL)
    )
    assert with_plugin == without
    assert all(answer == TRANSCRIPTS[name]["expect"] for name, answer in with_plugin.items())


class TestPostProcessedInTheWorker:
    """What a plain worker of TensorRT-LLM is not tested for."""

    @pytest.fixture
    def client(self, fleet: TrtllmFleet) -> Client:
        return Client(fleet.frontend.url, BACKEDGE_MODEL)

    test_a_client_that_leaves = staticmethod(test_errors.test_a_client_that_leaves_ends_generation)
    test_a_stop_match = staticmethod(test_errors.test_a_stop_match_ends_generation)
    test_bad_values = staticmethod(test_errors.test_bad_values_are_400_with_the_field)
    # A plain worker's engine does not get the client's stop tokens from Dynamo's handler.
    test_stop_token_ids = staticmethod(test_requests.test_stop_token_ids)
    test_logprobs_as_token_ids = staticmethod(
        test_requests.test_logprobs_without_alternatives_and_as_token_ids
    )

    @STREAMED
    def test_what_the_engine_refuses_is_400(self, client: Client, stream: bool) -> None:
        with pytest.raises(openai.BadRequestError, match="only replays"):
            client.ask({"messages": [{"role": "user", "content": "unknown"}]}, stream=stream)

    @STREAMED
    def test_parallel_tool_calls_false_ends_generation(
        self, client: Client, fleet: TrtllmFleet, stream: bool
    ) -> None:
        transcript = TRANSCRIPTS["parallel_calls"]
        before = fleet.generated()
        response = client.ask(transcript, stream=stream, parallel_tool_calls=False)
        assert len(response.answer.tool_calls) == 1
        assert response.usage.completion_tokens < len(encode(transcript["output"]))
        assert eventually(lambda: fleet.has_stopped(before))


# flags, part of the message
REFUSED: list[tuple[tuple[str, ...], str]] = [
    (("--tool-call-parser", "nope"), "--tool-call-parser 'nope' is not known"),
    ((*NATIVE, "--postprocess-workers", "2"), "must not be forked"),
    (("--tokenizer-backend", "python"), "needs --tokenizer-module"),
]


@pytest.mark.parametrize(("flags", "message"), REFUSED, ids=[" ".join(f) for f, _ in REFUSED])
def test_a_worker_refuses_to_start(
    fleet: TrtllmFleet, flags: tuple[str, ...], message: str
) -> None:
    worker = fleet.stack.trtllm("--trtllm-processing", *flags, module=TRTLLM, wait=False)
    assert worker.popen.wait(timeout=240) != 0
    assert message in re.sub(r"\s+", " ", worker.tail())
    fleet.stack.processes.remove(worker)
