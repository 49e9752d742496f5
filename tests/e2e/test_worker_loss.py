"""What a client gets if the only worker goes away; docs/requests.md has the table."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any

import pytest
from backedge.frontend.chat_model import NO_WORKER

from tests.e2e.client import HTTP, build_request, eventually
from tests.e2e.test_replay import PARSERS
from tests.support import TRANSCRIPTS
from tools.stack import HUGGINGFACE_FRONTEND, Process, Stack, metric

IN_FLIGHT = "dynamo_component_inflight_requests"
KINDS = (True, False)  # streamed, and not
CHUNKS = "backedge_chunks_total"
UNAVAILABLE = 503
# A frozen worker is given up after this time; and a worker that does not answer at all, too.
LIMITS = {"DYN_TCP_REQUEST_TIMEOUT": "5", "DYN_HTTP_BACKEND_STREAM_TIMEOUT_SECS": "5"}


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with Stack(tmp_path_factory.mktemp("loss"), **LIMITS) as found:
        found.frontend(command=HUGGINGFACE_FRONTEND)
        yield found


def start_worker(stack: Stack, name: str, speed: int = 8, room: int = 100) -> Process:
    """Start a worker whose answers take seconds, and wait until requests reach it.

    room: requests that it answers at once.
    """
    flags = (*PARSERS, "--tokens-per-second", str(speed))
    worker = stack.replay(
        *flags, name=name, DYN_ENGINE_REQUEST_LIMIT=str(room), DYN_DYNAMO_REQUEST_QUEUE_LIMIT="1"
    )
    stack.wait_for_model(stack.processes[0], name)
    assert eventually(lambda: ask(stack, name, stream=False, max_tokens=1).status_code == 200)
    return worker


def ask(stack: Stack, name: str, *, stream: bool, **fields: Any) -> Any:
    request: dict[str, Any] = build_request(TRANSCRIPTS["plain_text"], name, fields)
    request.update(request.pop("extra_body", {}))
    url = stack.processes[0].url + "/v1/chat/completions"
    return HTTP.post(url, json={**request, "stream": stream})


def read_status(response: Any) -> int:
    """Return the status, or that of the error in a stream."""
    events = re.findall(r"data: (\{.*)", response.text)
    errors = [event["error"]["code"] for event in map(json.loads, events) if "error" in event]
    return int(errors[0]) if errors else response.status_code


def lose(stack: Stack, worker: Process, name: str, way: signal.Signals, *, before: bool) -> Any:
    """Send `way` to a worker, before two requests or while they run; return their answers.

    Also returns our lines about requests in the frontend's log, which has no traceback.
    """
    start = len(stack.processes[0].log.read_text())
    if before:
        os.killpg(worker.popen.pid, way)
    with ThreadPoolExecutor(len(KINDS)) as threads:
        asked = [threads.submit(ask, stack, name, stream=stream) for stream in KINDS]
        if not before:
            sent = metric(worker.url, CHUNKS)
            assert eventually(lambda: metric(worker.url, IN_FLIGHT) == len(KINDS))
            assert eventually(lambda: metric(worker.url, CHUNKS) > sent + len(KINDS))
            os.kill(worker.popen.pid, way)
        answers = [each.result() for each in asked]
    worker.kill()
    log = stack.processes[0].log.read_text()[start:]
    assert "Traceback" not in log
    return answers, re.findall(r"request chatcmpl-.*", log)


@pytest.mark.parametrize(
    ("way", "before"),
    [
        *((signal.SIGKILL, False), (signal.SIGKILL, True)),
        *((signal.SIGSTOP, False), (signal.SIGSTOP, True)),
    ],
    ids=["killed", "unreachable", "frozen", "without an answer"],
)
def test_a_worker_that_is_gone_is_503_and_a_line(
    stack: Stack, way: signal.Signals, before: bool
) -> None:
    name = f"{way.name}-{before}"
    answers, lines = lose(stack, start_worker(stack, name), name, way, before=before)
    assert [read_status(answer) for answer in answers] == [UNAVAILABLE] * len(KINDS)
    # Once Dynamo knows that the worker is gone, it says "not ready" without asking us.
    ours = [answer for answer in answers if NO_WORKER in answer.text]
    assert len(lines) == len(ours) > 0


def test_a_worker_that_is_asked_to_end_finishes_first(stack: Stack) -> None:
    name = "drained"
    worker = start_worker(stack, name)
    answers, lines = lose(stack, worker, name, signal.SIGTERM, before=False)
    assert [read_status(answer) for answer in answers] == [200] * len(KINDS)
    for answer in answers:
        assert '"finish_reason":"stop"' in answer.text
    assert lines == []


def test_a_full_fleet_is_503_and_a_line(stack: Stack) -> None:
    name = "full"
    worker = start_worker(stack, name, speed=2, room=1)
    start = len(stack.processes[0].log.read_text())
    with ThreadPoolExecutor() as threads:
        # More than the worker takes: a request that it refuses shows that it is full.
        asked = [threads.submit(ask, stack, name, stream=False) for _ in range(4)]
        refused = [next(as_completed(asked)).result()]
        refused += [ask(stack, name, stream=stream) for stream in KINDS]
        log = stack.processes[0].log.read_text()[start:]
        worker.kill()
    assert [read_status(answer) for answer in refused] == [UNAVAILABLE] * len(refused)
    for answer in refused:
        assert NO_WORKER in answer.text
    assert len(re.findall(r"request chatcmpl-.*CapacityExhausted", log)) >= len(refused)
    assert "Traceback" not in log
