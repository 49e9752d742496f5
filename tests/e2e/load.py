"""Sends varied requests, so that no panel stays empty."""

from __future__ import annotations

import itertools
import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

from tests.support import TRANSCRIPTS

Request = dict[str, Any]
TIMEOUT_S = 60.0
# Between the requests of one client.
PAUSE_S = 0.05
# Long enough to be cut into parts for the frontend's prompt cache.
LONG = "The quick brown fox jumps over the lazy dog, and the dog does not mind. " * 60


def read_requests(model: str) -> list[Request]:
    """Return a request for each of the example conversations."""
    kept = ("messages", "tools", "tool_choice", "chat_template_kwargs")
    return [
        {"model": model, "stream": True}
        | {name: transcript[name] for name in kept if name in transcript}
        for transcript in TRANSCRIPTS.values()
    ]


def vary(requests: list[Request]) -> Iterator[tuple[Request, bool]]:
    """Yield requests endlessly, each with whether its client leaves early.

    Most are streams; some are not streamed, some reach a limit, a few are long conversations.
    """
    for number, request in enumerate(itertools.cycle(requests), 1):
        if number % 11 == 0:
            turns = [{"role": "user", "content": LONG}, {"role": "user", "content": str(number)}]
            yield {"model": request["model"], "messages": turns}, False
        elif number % 7 == 0:
            yield {**request, "max_tokens": 12}, False
        elif number % 5 == 0:
            yield {**request, "stream": False}, False
        else:
            yield request, number % 13 == 0


def send(url: str, request: Request, *, leaves: bool) -> None:
    """Send a request; read the whole answer, or leave after its first line.

    The rejection of a question that no transcript has counts as an answer.
    """
    body = json.dumps(request).encode()
    asked = urllib.request.Request(  # noqa: S310 - a frontend of ours
        url + "/v1/chat/completions", body, {"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(asked, timeout=TIMEOUT_S) as answer:  # noqa: S310 - as above
            answer.readline() if leaves else answer.read()
    except urllib.error.HTTPError as error:
        error.close()


class Load:
    """Threads that send requests to the frontend at `url` for a model."""

    def __init__(self, url: str, model: str) -> None:
        self._ended = threading.Event()
        self._url = url
        self.errors: list[Exception] = []
        requests = read_requests(model)
        # Each client has another order.
        orders = [requests[first:] + requests[:first] for first in (0, 5, 10)]
        self._threads = [
            threading.Thread(target=self._run, args=(vary(order),)) for order in orders
        ]

    def _run(self, requests: Iterator[tuple[Request, bool]]) -> None:
        for request, leaves in requests:
            if self._ended.is_set():
                return
            try:
                send(self._url, request, leaves=leaves)
            except Exception as error:  # noqa: BLE001 - the thread must end and report it
                self.errors.append(error)
                return
            time.sleep(PAUSE_S)

    def run(self, until: Callable[[], bool], timeout_s: float) -> bool:
        """Send requests until `until()`; return False if that takes longer than the timeout."""
        deadline = time.monotonic() + timeout_s
        for thread in self._threads:
            thread.start()
        try:
            while not (reached := until()) and time.monotonic() < deadline and not self.errors:
                time.sleep(0.5)
        finally:
            self._ended.set()
            for thread in self._threads:
                thread.join()
        return reached
