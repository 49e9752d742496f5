"""The load generator, in its own process, so that its CPU time counts for no system.

`python -m benchmarks.load` sends the requests of each `Load` that it reads as JSON from a line of
stdin, and writes an `Outcome` as JSON to stdout. It speaks HTTP without a client library, which
would cost more per chunk than the frontend that is measured on the same machine.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from itertools import pairwise
from typing import Self
from urllib.parse import urlsplit

import msgspec
from backedge.base.json_types import JsonObject

from .answers import Answer, Texts, answer

TIMEOUT_S = 600.0
WARM_UP_S = 120.0
MS_PER_S = 1e3
OK = 200


class Load(msgspec.Struct, frozen=True):
    """The requests to send.

    url: the frontend's, without /v1.
    tokens: per answer; see `answers.answer`.
    streams: concurrent requests. requests: the total.
    max_tokens: cuts the answers; 0 for whole answers.
    """

    url: str
    model: str
    kind: str
    stream: bool
    tokens: int
    streams: int
    requests: int
    max_tokens: int = 0


class Outcome(msgspec.Struct):
    """The responses, counted.

    tokens: completion tokens, by the usage of the responses.
    chunks: SSE events with choices, or one per response without a stream.
    problems: the number of responses that differ from the transcript, by what was wrong.
    seconds: from the first request to the last response.
    gap_ms: between two chunks of a stream, the 50th and 99th percentile; 0 without two.
    """

    requests: int = 0
    tokens: int = 0
    chunks: int = 0
    problems: dict[str, int] = {}
    seconds: float = 0.0
    gap_ms: tuple[float, float] = (0.0, 0.0)


class Response:
    """One response, put together from its chunks."""

    def __init__(self) -> None:
        self.chunks = 0
        self.times: list[float] = []
        self.tokens = 0
        self.finish_reason: str | None = None
        self._content: list[str] = []
        self._reasoning: list[str] = []
        self._arguments: list[str] = []

    def add(self, event: JsonObject) -> None:
        """Add one chat.completion.chunk, or a whole chat.completion."""
        if usage := event.get("usage"):
            self.tokens = usage["completion_tokens"]
        if event["choices"]:
            self.chunks += 1
            self.times.append(time.monotonic())
        for choice in event["choices"]:
            self.finish_reason = choice.get("finish_reason") or self.finish_reason
            delta = choice.get("delta") or choice.get("message") or {}
            self._content.append(delta.get("content") or "")
            self._reasoning.append(delta.get("reasoning_content") or delta.get("reasoning") or "")
            for call in delta.get("tool_calls") or ():
                self._arguments.append(call["function"].get("arguments") or "")

    @property
    def texts(self) -> Texts:
        """The texts so far."""
        return Texts(*map("".join, (self._content, self._reasoning, self._arguments)))

    def problems(self, expected: Answer, max_tokens: int) -> list[str]:
        """Return the differences, other than in white space around texts or inside JSON.

        max_tokens: 0 for a whole answer; of a cut answer only the length is checked.
        """
        if max_tokens:
            return (
                []
                if self.tokens == max_tokens
                else [f"{self.tokens} completion tokens instead of {max_tokens}"]
            )
        texts = self.texts
        found = [
            f"{name} of {len(given)} characters instead of {len(wanted)}"
            for name, wanted in msgspec.structs.asdict(expected.texts).items()
            if not _same(given := getattr(texts, name), wanted)
        ]
        if self.tokens != len(expected.token_ids):
            found.append(f"{self.tokens} completion tokens instead of {len(expected.token_ids)}")
        finish_reason = "tool_calls" if expected.texts.arguments else "stop"
        if self.finish_reason != finish_reason:
            found.append(f"finish_reason {self.finish_reason!r} instead of {finish_reason!r}")
        return found


class Client:
    """The load generator's process."""

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "benchmarks.load"]
        self._popen = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        return self

    def __exit__(self, *_: object) -> None:
        self._popen.kill()
        self._popen.communicate()

    def run(self, load: Load) -> Outcome:
        """Send the requests of `load`. Raises RuntimeError if the process has ended."""
        assert self._popen.stdin is not None  # noqa: S101 - narrows the type
        assert self._popen.stdout is not None  # noqa: S101 - narrows the type
        self._popen.stdin.write(msgspec.json.encode(load) + b"\n")
        self._popen.stdin.flush()
        line = self._popen.stdout.readline()
        if not line:
            raise RuntimeError("the load generator has ended; its error is above")
        return msgspec.json.decode(line, type=Outcome)

    def warm_up(self, load: Load) -> None:
        """Send `load` until it is answered. Raises RuntimeError after `WARM_UP_S`."""
        deadline = time.monotonic() + WARM_UP_S
        while not (outcome := self.run(load)).tokens:
            if time.monotonic() > deadline:
                raise RuntimeError(f"{load.url} does not answer: {outcome.problems}")
            time.sleep(1)


async def send(load: Load) -> Outcome:
    """Send all requests of `load`, `load.streams` at a time."""
    expected = answer(load.kind, load.tokens)
    body = json.dumps({"model": load.model, **expected.request, **_options(load)}).encode()
    left = iter(range(load.requests))
    outcome = Outcome(requests=load.requests)
    problems: Counter[str] = Counter()
    gaps: list[float] = []

    async def client() -> None:
        for _ in left:
            response = Response()
            try:
                async for event in post(load.url, body):
                    response.add(event)
                found = response.problems(expected, load.max_tokens)
            except (OSError, EOFError, ValueError) as error:
                found = [str(error) or type(error).__name__]
            outcome.tokens += response.tokens
            outcome.chunks += response.chunks
            gaps.extend(late - early for early, late in pairwise(response.times))
            problems.update(found)

    began = time.monotonic()
    async with asyncio.timeout(TIMEOUT_S):
        await asyncio.gather(*(client() for _ in range(load.streams)))
    outcome.seconds = time.monotonic() - began
    outcome.problems = dict(problems)
    if len(gaps) > 1:
        percentiles = statistics.quantiles(gaps, n=100)
        outcome.gap_ms = percentiles[49] * MS_PER_S, percentiles[98] * MS_PER_S
    return outcome


def _options(load: Load) -> JsonObject:
    options: JsonObject = {"stream": load.stream, "temperature": 0}
    if load.stream:
        options["stream_options"] = {"include_usage": True}
    if load.max_tokens:
        options["max_tokens"] = load.max_tokens
    return options


def _same(given: str, wanted: str) -> bool:
    if given.strip() == wanted.strip():
        return True
    try:
        return bool(json.loads(given) == json.loads(wanted))
    except ValueError:
        return False


async def post(url: str, body: bytes) -> AsyncIterator[JsonObject]:
    """Send `body` as a POST request and yield the response's JSON objects.

    Raises OSError or EOFError for a broken connection, ValueError for an HTTP error.
    """
    address = urlsplit(url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nhost: {address.netloc}\r\nconnection: close\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    writer.write(head.encode() + body)
    try:
        status, headers = await _head(reader)
        if status != OK:
            raise ValueError(f"HTTP {status}: {(await reader.read(300)).decode(errors='replace')}")
        if "text/event-stream" in headers.get("content-type", ""):
            async for event in _events(_blocks(reader, headers)):
                yield event
        else:
            yield json.loads(b"".join([block async for block in _blocks(reader, headers)]))
    finally:
        writer.close()


async def _head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    lines = (await reader.readuntil(b"\r\n\r\n")).decode().splitlines()
    pairs = (line.partition(":") for line in lines[1:] if line)
    return int(lines[0].split()[1]), {name.lower(): value.strip() for name, _, value in pairs}


async def _blocks(reader: asyncio.StreamReader, headers: dict[str, str]) -> AsyncIterator[bytes]:
    """Yield the body in the blocks in which it was sent."""
    if headers.get("transfer-encoding") != "chunked":
        yield await reader.readexactly(int(headers["content-length"]))
        return
    while size := int(await reader.readline(), 16):
        yield (await reader.readexactly(size + 2))[:-2]


async def _events(blocks: AsyncIterator[bytes]) -> AsyncIterator[JsonObject]:
    """Yield the events of a server-sent stream, up to [DONE].

    Raises ValueError for an error event.
    """
    rest = b""
    async for block in blocks:
        *lines, rest = (rest + block).split(b"\n")
        for line in lines:
            if not line.startswith(b"data: ") or line.startswith(b"data: [DONE]"):
                continue
            event = json.loads(line.removeprefix(b"data: "))
            if "choices" not in event:
                raise ValueError(f"error in the stream: {str(event)[:300]}")
            yield event


def main() -> None:
    """Answer each load on stdin with its outcome."""
    for line in sys.stdin.buffer:
        outcome = asyncio.run(send(msgspec.json.decode(line, type=Load)))
        sys.stdout.buffer.write(msgspec.json.encode(outcome) + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
