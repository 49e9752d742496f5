"""The load generator of `forward_edge`: running streams, and long prompts that arrive meanwhile.

It runs in its own process: `python -m benchmarks.long_prompts` reads one `Plan` as JSON
from stdin and writes one `Outcome` as JSON to stdout.

The worker generates at a known pace, so a token's time is known except for the moment at
which its stream began. The stream's fastest delta gives that moment. So a delay is the
time beyond that of an undisturbed delta, which takes about a millisecond. A delta counts
from its last token, so merging does not count as delay.

The generator also measures how late it is itself: on a machine with more work than
cores every process waits for its turn, which is not the frontend's fault.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import string
import sys
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from .answers import answer, tokenizer
from .load import post, run_module

MS_PER_S = 1e3
# All streams begin within the time of one token. The first second is left out.
SETTLE_S = 1.0
# After the last prompt, so that deltas that it delays are still sent.
TAIL_S = 2.0
WORD_LENGTHS = range(2, 11)
# How often this process checks whether it is late.
CHECK_S = 0.005


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What to send.

    stream_model, prompt_model: the models of the running streams and of the long prompts.
        They have separate workers, so that no stream waits for a worker that reads a prompt.
    pace: tokens per second of a stream.
    quiet_s: before the first prompt.
    prompts, every_s: the number of prompts, and the time between two of them.
    url: the frontend's.
    characters: of a prompt.
    seed: of the prompts' text.
    """

    stream_model: str
    prompt_model: str
    streams: int
    pace: float
    quiet_s: float
    prompts: int
    every_s: float
    url: str = ""
    characters: int = 0
    seed: int = 0

    @property
    def tokens(self) -> int:
        """The approximate number of tokens in each stream's answer."""
        return int(self.pace * (SETTLE_S + self.quiet_s + self.prompts * self.every_s + TAIL_S))


class Outcome(msgspec.Struct):
    """The measured times, in milliseconds.

    quiet: the delays of deltas before the first prompt.
    busy: those from then until the last prompt was answered.
    prompts: each prompt's time to its first delta.
    own: how late this process was during `busy`, at each check.
    problems: the number of wrong responses, by what was wrong.
    """

    quiet: list[float] = []
    busy: list[float] = []
    prompts: list[float] = []
    own: list[float] = []
    problems: dict[str, int] = {}


class Arrival(msgspec.Struct, frozen=True):
    """A delta. at: when it arrived. characters: of the stream's text so far."""

    at: float
    characters: int


class Delay(msgspec.Struct, frozen=True):
    """The delay of a delta. generated_at: when its last token was generated."""

    generated_at: float
    seconds: float


def run(plan: Plan) -> Outcome:
    """Run `plan` in its own process. Raises CalledProcessError if the process fails."""
    return run_module("benchmarks.long_prompts", plan, Outcome)


def long_text(characters: int, seed: int = 0) -> str:
    """Return words of random letters, so that a tokenizer's cache of words does not help."""
    choose = random.Random(seed)
    words = (
        "".join(choose.choices(string.ascii_lowercase, k=choose.choice(WORD_LENGTHS)))
        for _ in itertools.count()
    )
    spaced = itertools.chain.from_iterable(word + " " for word in words)
    return "".join(itertools.islice(spaced, characters))


def find_token_ends(token_ids: Sequence[int]) -> list[int]:
    """Return the length of the text after each token. Each token must be whole characters."""
    decode = tokenizer().decode
    return list(itertools.accumulate(len(decode([token_id])) for token_id in token_ids))


def compute_delays(
    arrivals: Sequence[Arrival], ends: Sequence[int], pace: float
) -> Iterator[Delay]:
    """Yield the delays of one stream's deltas. ends: see `find_token_ends`."""
    due = [bisect_left(ends, arrival.characters) / pace for arrival in arrivals]
    start = min(
        (arrival.at - after for arrival, after in zip(arrivals, due, strict=True)), default=0.0
    )
    for arrival, after in zip(arrivals, due, strict=True):
        yield Delay(start + after, arrival.at - start - after)


class Sender:
    """Sends a plan's requests and records when each delta arrives."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._expected = answer("content", plan.tokens)
        request = {**self._expected.request, "stream": True}
        self._stream = json.dumps({"model": plan.stream_model, **request}).encode()
        # Made beforehand, so that making them does not delay the measurement.
        self._prompts = [self._prompt(plan.seed + number) for number in range(plan.prompts)]
        self._problems: Counter[str] = Counter()
        self._own: list[float] = []

    def _prompt(self, seed: int) -> bytes:
        message = {"role": "user", "content": long_text(self._plan.characters, seed)}
        request = {"messages": [message], "max_tokens": 1, "stream": True}
        return json.dumps({"model": self._plan.prompt_model, **request}).encode()

    async def send(self) -> Outcome:
        """Send everything."""
        plan = self._plan
        streams = [asyncio.create_task(self._run_stream(number)) for number in range(plan.streams)]
        await asyncio.sleep(SETTLE_S)
        quiet_from = time.monotonic()
        await asyncio.sleep(plan.quiet_s)
        busy_from = time.monotonic()
        checking = asyncio.create_task(self._check_own_delay())
        answered = await asyncio.gather(
            *(
                self._send_prompt(body, number * plan.every_s)
                for number, body in enumerate(self._prompts)
            )
        )
        busy_until = time.monotonic()
        checking.cancel()
        ends = find_token_ends(self._expected.token_ids)
        delays = [
            delay for task in streams for delay in compute_delays(await task, ends, plan.pace)
        ]
        return Outcome(
            quiet=_between(delays, quiet_from, busy_from),
            busy=_between(delays, busy_from, busy_until),
            prompts=[seconds * MS_PER_S for seconds in answered if seconds is not None],
            own=self._own,
            problems=dict(self._problems),
        )

    async def _check_own_delay(self) -> None:
        while True:
            due = time.monotonic() + CHECK_S
            await asyncio.sleep(CHECK_S)
            self._own.append(max(0.0, time.monotonic() - due) * MS_PER_S)

    async def _run_stream(self, number: int) -> list[Arrival]:
        await asyncio.sleep(number / self._plan.streams / self._plan.pace)
        arrivals: list[Arrival] = []
        texts: list[str] = []
        characters = 0
        try:
            async for event in post(self._plan.url, self._stream):
                text = "".join(choice["delta"].get("content") or "" for choice in event["choices"])
                if text:
                    characters += len(text)
                    arrivals.append(Arrival(time.monotonic(), characters))
                    texts.append(text)
        except (OSError, EOFError, ValueError) as error:
            self._problems[str(error) or type(error).__name__] += 1
        if "".join(texts) != self._expected.texts.content:
            self._problems["a stream's text differs from the answer"] += 1
        return arrivals

    async def _send_prompt(self, body: bytes, after_s: float) -> float | None:
        """Return the seconds to the first delta; None if no delta came."""
        await asyncio.sleep(after_s)
        start = time.monotonic()
        first = None
        try:
            async for event in post(self._plan.url, body):
                if event["choices"] and first is None:
                    first = time.monotonic() - start
        except (OSError, EOFError, ValueError) as error:
            self._problems[f"a long prompt: {str(error) or type(error).__name__}"] += 1
        return first


def _between(delays: Sequence[Delay], start: float, end: float) -> list[float]:
    return [delay.seconds * MS_PER_S for delay in delays if start <= delay.generated_at < end]


if __name__ == "__main__":
    sent = asyncio.run(Sender(msgspec.json.decode(sys.stdin.buffer.read(), type=Plan)).send())
    sys.stdout.buffer.write(msgspec.json.encode(sent))
