"""Chunks leave a worker alike whether Dynamo pushes or pulls them."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from tests.e2e.client import Client, build_request
from tests.e2e.test_replay import PARSERS
from tests.support import TRANSCRIPTS
from tools.stack import HUGGINGFACE_FRONTEND, MODEL_NAME, REPLAY_WORKER, Stack, metric

COMMANDS = {
    "pushed": REPLAY_WORKER,
    "pulled": ("-m", "tests.e2e.pulled_worker", REPLAY_WORKER[1]),
}
IN_FLIGHT = "dynamo_component_inflight_requests"
DEADLINE_S = 30.0


class Pair:
    """A frontend and a worker."""

    def __init__(self, stack: Stack, command: tuple[str, ...]) -> None:
        flags = (*PARSERS, "--postprocess-latency", "lowest")
        self.worker = stack.replay(*flags, command=command, wait=False)
        self.frontend = stack.frontend(*PARSERS, command=HUGGINGFACE_FRONTEND, wait=False)
        stack.wait_for_model(self.frontend)
        self.client = Client(self.frontend.url, MODEL_NAME)


@pytest.fixture(scope="module", params=COMMANDS)
def pair(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Pair]:
    with Stack(tmp_path_factory.mktemp("egress")) as stack:
        yield Pair(stack, COMMANDS[request.param])


@pytest.mark.parametrize("name", TRANSCRIPTS)
def test_the_transcripts(pair: Pair, name: str) -> None:
    answer = pair.client.ask(TRANSCRIPTS[name])
    assert answer.message == TRANSCRIPTS[name]["expect"]


def test_a_client_that_leaves_ends_its_request(pair: Pair) -> None:
    stream = open_stream(pair, n=128)
    stream.close()
    wait_until(partial(is_idle, pair))
    assert pair.client.ask(TRANSCRIPTS["count"]).message == TRANSCRIPTS["count"]["expect"]


def test_a_client_that_does_not_read_holds_up_nobody_else(pair: Pair) -> None:
    """Its answer is larger than all that Dynamo and the sockets hold."""
    stream = open_stream(pair, n=64)
    time.sleep(1.0)
    assert pair.client.ask(TRANSCRIPTS["count"]).message == TRANSCRIPTS["count"]["expect"]
    stream.close()
    wait_until(partial(is_idle, pair))


def open_stream(pair: Pair, n: int) -> http.client.HTTPConnection:
    """Ask for a long answer, and read nothing of it."""
    host, port = pair.frontend.url.removeprefix("http://").split(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=DEADLINE_S)
    fields = {"n": n, "temperature": 1.0, "logprobs": True, "top_logprobs": 1}
    body = {**build_request(TRANSCRIPTS["long_argument"], MODEL_NAME, fields), "stream": True}
    body |= body.pop("extra_body")
    headers = {"Content-Type": "application/json"}
    connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)
    wait_until(lambda: metric(pair.worker.url, IN_FLIGHT) > 0)
    return connection


def is_idle(pair: Pair) -> bool:
    return metric(pair.worker.url, IN_FLIGHT) == 0


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
