"""A worker with vLLM's detokenizer and parsers: every transcript, then its engine dies.

The fleet's own worker has the default, `auto`; linear parsers are in test_tokenizer_backends.py.
"""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator

import openai
import pytest

from tests.e2e.client import Client, ask_transcripts
from tests.e2e.conftest import LONG_CONTEXT, VLLM_PARSERS, Fleet
from tests.e2e.test_errors import COUNT, LONG_REQUEST
from tests.e2e.test_transcripts import ALL, STREAMED, generated, reasoning_tokens
from tests.support import TRANSCRIPTS, Transcript, as_whole
from tools.stack import Process

NAME = "native"


@pytest.fixture(scope="module")
def native(fleet: Fleet) -> Iterator[Process]:
    flags = ("--vllm-processing", *VLLM_PARSERS, *LONG_CONTEXT)
    native = ("--postprocess-parsers", "native", "--postprocess-detokenizer", "native")
    worker = fleet.stack.worker(*flags, *native, name=NAME, wait=False)
    fleet.stack.wait_for_model(fleet.frontend, NAME)
    yield worker
    assert "native parsers qwen3+hermes, detokenizer native" in worker.log.read_text()
    worker.terminate()
    worker.reap()


@ALL
@STREAMED
def test_gives_exactly_the_transcript(
    fleet: Fleet, native: Process, stream: bool, transcript: Transcript
) -> None:
    response = ask_transcripts(fleet.frontend, NAME)[transcript["id"], stream].result()
    assert response.message == (transcript["expect"] if stream else as_whole(transcript["expect"]))
    assert response.usage.completion_tokens == generated(transcript)
    assert response.usage.completion_tokens_details.reasoning_tokens == reasoning_tokens(transcript)


def find_engine(worker: Process) -> int:
    """Return the pid of the worker's engine process."""
    children = subprocess.run(
        ["pgrep", "-P", str(worker.popen.pid), "-a"], capture_output=True, text=True, check=True
    )
    lines = [
        line
        for line in children.stdout.splitlines()
        if "EngineCore" in line or "spawn_main" in line
    ]
    return int(lines[-1].split()[0])


def test_an_engine_that_dies_is_an_error_for_the_client(fleet: Fleet, native: Process) -> None:
    """The last test of the module: it leaves the worker without an engine."""
    client = Client(fleet.frontend.url, NAME)
    client.ask(TRANSCRIPTS["plain_text"])  # the first request of a worker builds what it needs
    stream = client.openai.chat.completions.create(
        model=NAME, messages=COUNT["messages"], stream=True, temperature=0, **LONG_REQUEST
    )
    for _, _chunk in zip(range(3), stream, strict=False):
        pass
    subprocess.run(["kill", f"-{signal.SIGKILL.value}", str(find_engine(native))], check=True)
    with pytest.raises(openai.APIError):
        for _chunk in stream:
            pass
