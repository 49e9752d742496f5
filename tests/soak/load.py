"""The soak's load: all kinds of requests, each with the whole answer as its oracle."""

from __future__ import annotations

import asyncio
import enum
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import openai
from openai.types.chat import ChatCompletionChunk

from tests.e2e.client import Answer, add_delta, build_request, whole
from tests.support import TRANSCRIPTS, Transcript

CANCELLED_SHARE, SLOW_SHARE, BAD_SHARE, WHOLE_SHARE = 0.2, 0.1, 0.05, 0.3
SLOW_READER_S = 0.05
TIMEOUT_S = 120.0
# Each is refused with 400, whatever else happens in the fleet.
BAD_REQUESTS: tuple[dict[str, Any], ...] = (
    {"min_tokens": 10, "max_tokens": 5},
    {"guided_regex": "("},
    {"stop_token_ids": [60_000_000]},
    {"chat_template_kwargs": {"max_length": 20_000_000}},
)


class Result(enum.Enum):
    """How a request ended. FAILED: with an error or without an end."""

    RIGHT = "right"
    WRONG = "wrong"
    CANCELLED = "cancelled, right so far"
    REFUSED = "refused, as it has to be"
    FAILED = "failed"


@dataclass(frozen=True)
class Target:
    """A model at a frontend. name: of the frontend, for what a fault explains."""

    name: str
    client: openai.AsyncOpenAI
    model: str


@dataclass(frozen=True)
class Outcome:
    """One request. began, ended: `time.monotonic()`. gap_s: the longest between two chunks."""

    target: Target
    result: Result
    began: float
    ended: float
    note: str = ""
    gap_s: float = 0.0


@dataclass
class Load:
    """Keeps `streams` requests going until `end`, and counts how they end.

    report: is called with every outcome.
    """

    targets: Sequence[Target]
    streams: int
    end: float
    report: Callable[[Outcome], None]
    random: random.Random
    asked: Counter[str] = field(default_factory=Counter)

    async def run(self) -> None:
        """Ask until the end, and wait for the last answers."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(self.streams):
                tasks.create_task(self._ask_again_and_again())

    async def _ask_again_and_again(self) -> None:
        while time.monotonic() < self.end:
            target = self.random.choice(self.targets)
            outcome = await self._ask(target)
            self.report(outcome)
            if outcome.result is Result.FAILED:
                await asyncio.sleep(0.2)

    async def _ask(self, target: Target) -> Outcome:
        began = time.monotonic()
        transcript = self.random.choice(list(TRANSCRIPTS.values()))
        kind, gap, note = self._choose_kind(), Gap(), ""
        self.asked[kind] += 1
        try:
            result, note = await self._send(kind, target, transcript, gap)
        except openai.BadRequestError as error:
            result = Result.REFUSED if kind == "bad" else Result.FAILED
            note = str(error)
        except (openai.OpenAIError, ExceptionGroup) as error:
            result, note = Result.FAILED, f"{type(error).__name__}: {error}"
        return Outcome(target, result, began, time.monotonic(), note, gap.longest_s)

    def _choose_kind(self) -> str:
        kinds = {
            "cancelled": CANCELLED_SHARE,
            "slow": SLOW_SHARE,
            "bad": BAD_SHARE,
            "whole": WHOLE_SHARE,
        }
        kinds["streamed"] = 1 - sum(kinds.values())
        return self.random.choices(list(kinds), list(kinds.values()))[0]

    async def _send(
        self, kind: str, target: Target, transcript: Transcript, gap: Gap
    ) -> tuple[Result, str]:
        extra = {"extra_body": self.random.choice(BAD_REQUESTS)} if kind == "bad" else {}
        request = build_request(transcript, target.model, extra)
        completions = target.client.chat.completions
        if kind in ("whole", "bad"):
            answer = whole(await completions.create(**request)).answer
            return self._judge(answer, transcript, stream=False)
        answer = Answer()
        stop_after = self.random.randint(1, 12) if kind == "cancelled" else None
        stream = await completions.create(**request, stream=True)
        async with stream:
            async for chunk in stream:
                gap.tick()
                read_chunk(answer, chunk)
                if stop_after is not None and (stop_after := stop_after - 1) < 0:
                    return judge_beginning(answer, transcript)
                if kind == "slow":
                    await asyncio.sleep(SLOW_READER_S)
                    gap.restart()
        if answer.finish_reason is None:
            return Result.FAILED, "the stream ended without a finish_reason"
        return self._judge(answer, transcript, stream=True)

    def _judge(self, answer: Answer, transcript: Transcript, *, stream: bool) -> tuple[Result, str]:
        expected = transcript["expect"]
        if answer.message == expected or (not stream and is_folded(answer, expected)):
            return Result.RIGHT, ""
        return Result.WRONG, f"{transcript['id']}: {answer.message} instead of {expected}"


def is_folded(answer: Answer, expected: dict[str, Any]) -> bool:
    """Whether a whole answer differs from what is expected in Dynamo's own folding alone."""
    message = answer.message
    return all(message[key] == expected[key] or not expected[key] for key in expected) and all(
        bool(message[key]) <= bool(expected[key]) for key in ("reasoning", "content")
    )


class Gap:
    """The longest time between two chunks of a stream."""

    def __init__(self) -> None:
        self.longest_s = 0.0
        self._last: float | None = None

    def tick(self) -> None:
        """Note a chunk."""
        now = time.monotonic()
        if self._last is not None:
            self.longest_s = max(self.longest_s, now - self._last)
        self._last = now

    def restart(self) -> None:
        """Leave out the reader's own pause."""
        self._last = time.monotonic()


def read_chunk(answer: Answer, chunk: ChatCompletionChunk) -> None:
    """Add a chunk's choice to the answer."""
    for choice in chunk.choices:
        add_delta(answer, choice.delta)
        answer.finish_reason = choice.finish_reason or answer.finish_reason


def judge_beginning(answer: Answer, transcript: Transcript) -> tuple[Result, str]:
    """Judge an answer that was left before its end: all of it must begin what is expected."""
    expected = transcript["expect"]
    calls = zip(answer.tool_calls, expected["tool_calls"] or [], strict=False)
    begins = (
        (expected["reasoning"] or "").startswith(answer.reasoning or "")
        and (expected["content"] or "").startswith(answer.content or "")
        and len(answer.tool_calls) <= len(expected["tool_calls"] or [])
        and all(
            call["name"] == wanted["name"] and wanted["arguments"].startswith(call["arguments"])
            for call, wanted in calls
        )
    )
    if begins:
        return Result.CANCELLED, ""
    return Result.WRONG, f"{transcript['id']}: {answer.message} begins not as {expected}"
