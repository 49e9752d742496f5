"""A worker with vLLM's detokenizer and parsers: every transcript, then its engine dies.

The fleet's own worker has the default, `auto`; linear parsers are in test_tokenizer_backends.py.
"""

from __future__ import annotations

import collections
import functools
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import openai
import pytest
from backedge.frontend.chat_model import NO_WORKER

from tests.e2e.client import Client, ask_transcripts, eventually
from tests.e2e.conftest import LONG_CONTEXT, VLLM_PARSERS, Fleet
from tests.e2e.test_errors import COUNT, LONG_REQUEST
from tests.e2e.test_transcripts import ALL, STREAMED, generated, reasoning_tokens
from tests.e2e.test_worker_loss import IN_FLIGHT, UNAVAILABLE
from tests.machine import require
from tests.support import TRANSCRIPTS, Transcript, as_whole
from tools.stack import Process, metric

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
        [require("pgrep"), "-P", str(worker.popen.pid), "-a"],
        capture_output=True,
        text=True,
        check=True,
    )
    lines = [
        line
        for line in children.stdout.splitlines()
        if any(name in line for name in ("EngineCore", "spawn_main", "forkserver"))
    ]
    return int(lines[-1].split()[0])


def test_an_engine_that_dies_is_503_and_a_line(fleet: Fleet, native: Process) -> None:
    """The last test of the module: it leaves the worker without an engine."""
    client = Client(fleet.frontend.url, NAME)
    client.ask(TRANSCRIPTS["plain_text"])  # the first request of a worker builds what it needs
    start = len(fleet.frontend.log.read_text())
    create = functools.partial(
        client.openai.chat.completions.create,
        model=NAME, messages=COUNT["messages"], temperature=0, **LONG_REQUEST,
    )  # fmt: skip
    with ThreadPoolExecutor() as threads:
        whole = threads.submit(create, stream=False)
        stream = create(stream=True)
        assert eventually(lambda: metric(native.url, IN_FLIGHT) == 2)
        next(iter(stream))
        os.kill(find_engine(native), signal.SIGKILL)
        with pytest.raises(openai.APIError) as in_stream:
            collections.deque(stream, maxlen=0)
        with pytest.raises(openai.InternalServerError) as instead:
            whole.result()
    assert isinstance(in_stream.value.body, dict)
    assert in_stream.value.body["code"] == instead.value.status_code == UNAVAILABLE
    assert NO_WORKER in in_stream.value.message
    assert NO_WORKER in instead.value.message
    log = fleet.frontend.log.read_text()[start:]
    assert len(re.findall(r"request chatcmpl-.*Unavailable", log)) == 2
    assert "Traceback" not in log
