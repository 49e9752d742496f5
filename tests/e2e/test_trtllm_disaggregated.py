"""TensorRT-LLM workers for prefill and decode, Dynamo's own, with a stand-in for the engine.

The stand-in hands over the first token and checks that it fits the prompt; no KV cache moves.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

import openai
import pytest

from tests.e2e.client import Client, ask_transcripts, eventually
from tests.e2e.conftest import BACKEDGE_MODEL, FIGURES, VLLM_PARSERS
from tests.e2e.forked import TRTLLM, ForkingStack
from tests.e2e.test_errors import COUNT, LONG_REQUEST
from tests.e2e.test_requests import STREAMED
from tests.e2e.test_transcripts import check
from tests.e2e.test_trtllm import ENGINE
from tests.support import TRANSCRIPTS
from tools.stack import HUGGINGFACE_FRONTEND, Process, metric

RUNNING, GENERATED = FIGURES["trtllm"]
UNFORCED = tuple(
    name for name, transcript in TRANSCRIPTS.items() if "tool_choice" not in transcript
)


@dataclass
class Pair:
    """A worker for prefill and one for decode."""

    prefill: Process
    decode: Process
    frontend: Process


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with ForkingStack(tmp_path_factory.mktemp("disaggregated")) as stack:
        prefill, decode = (
            stack.trtllm(
                *("--disaggregation-mode", mode, "--trtllm-processing", *VLLM_PARSERS, *ENGINE),
                module=TRTLLM,
                wait=False,
            )
            for mode in ("prefill", "decode")
        )
        frontend = stack.frontend(command=HUGGINGFACE_FRONTEND, wait=False)
        stack.wait_for_model(frontend)
        client = Client(frontend.url, BACKEDGE_MODEL)
        assert eventually(lambda: has_prefilled(client, prefill))
        yield Pair(prefill, decode, frontend)


def has_prefilled(client: Client, prefill: Process) -> bool:
    """Whether a request reaches both workers; before, the frontend has not found both."""
    with contextlib.suppress(openai.APIError):
        client.ask(TRANSCRIPTS["cut_text"])
    return metric(prefill.url, GENERATED) > 0


@STREAMED
@pytest.mark.parametrize("name", UNFORCED)
def test_gives_exactly_the_transcript(pair: Pair, name: str, stream: bool) -> None:
    answers = ask_transcripts(pair.frontend, BACKEDGE_MODEL, UNFORCED)
    check(answers[name, stream].result(), TRANSCRIPTS[name], stream=stream)


def test_the_decode_worker_post_processes(pair: Pair) -> None:
    chunks = "backedge_chunks_total"
    before, prefilled = metric(pair.decode.url, chunks), metric(pair.prefill.url, GENERATED)
    client = Client(pair.frontend.url, BACKEDGE_MODEL)
    transcript = TRANSCRIPTS["reasoning_call"]
    assert client.ask(transcript).message == transcript["expect"]
    assert eventually(lambda: metric(pair.decode.url, chunks) > before)
    assert metric(pair.prefill.url, chunks) == 0
    assert metric(pair.prefill.url, GENERATED) == prefilled + 1, "the first token"


@STREAMED
def test_a_stop_match_ends_generation(pair: Pair, stream: bool) -> None:
    # With one choice: Dynamo's prefill worker refuses requests for several.
    before = metric(pair.decode.url, GENERATED)
    response = Client(pair.frontend.url, BACKEDGE_MODEL).ask(
        COUNT, stream=stream, stop=["12, 13"], **LONG_REQUEST
    )
    assert response.answer.content == COUNT["expect"]["content"].partition("12, 13")[0]
    assert eventually(lambda: metric(pair.decode.url, RUNNING) == 0)
    assert metric(pair.decode.url, GENERATED) - before < LONG_REQUEST["max_tokens"] / 2
