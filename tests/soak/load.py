"""The soak's load: all kinds of requests, each with the whole answer as its oracle."""

from __future__ import annotations

import asyncio
import enum
import random
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import openai
from backedge.frontend.response.inert_content import spell_inert
from openai.types.chat import ChatCompletionChunk

from tests.e2e.client import Answer, add_delta, build_request, whole
from tests.soak import slips
from tests.soak.options import choose_options, find_fault, gather
from tests.soak.store import CALL, ask_for_call, send_back
from tests.support import TRANSCRIPTS, Transcript, as_whole

CANCELLED_SHARE, SLOW_SHARE, BAD_SHARE, WHOLE_SHARE = 0.15, 0.1, 0.05, 0.2
OPTIONS_SHARE, TURNS_SHARE = 0.3, 0.15
SLOW_READER_S = 0.05
TIMEOUT_S = 120.0
# Each is refused with 400, whatever else happens in the fleet.
BAD_REQUESTS: tuple[dict[str, Any], ...] = (
    {"min_tokens": 10, "max_tokens": 5},
    {"guided_json": {"type": "strin"}},
    {"stop": [60_000_000]},
    {"chat_template_kwargs": {"max_length": 20_000_000}},
)


# Requests that end with their worker: Dynamo moves neither the state of a grammar nor several
# choices.
GUIDED = "guided requests"
# When one with Backedge takes over from a plain worker that dies, Dynamo's frontend drops the text
# that it holds back for a stop string, and ends with half a character (docs/upstream.md).
HELD_IN_RUST = "stop strings and half characters in Dynamo's frontend"


def guided(transcript: Transcript) -> bool:
    """Whether a grammar guides the answer."""
    return "response_format" in transcript or transcript.get("tool_choice", "auto") not in (
        "auto",
        "none",
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
    """A model at a frontend.

    name: of the frontend, for what a fault explains. follows_grammars: whether the model gives its
    transcripts where a grammar guides it to JSON. shares: of the kinds of requests, which
    replace the usual ones. pool: `POOL_PROCESSES` if a pool serves it. keeps_turns: whether the
    frontend does, and the model answers any prompt. is_stock: whether the frontend is Dynamo's.
    read_again_by: Dynamo's tool parser on the model's card, if any.
    """

    name: str
    client: openai.AsyncOpenAI
    model: str
    follows_grammars: bool = True
    shares: Mapping[str, float] | None = None
    pool: frozenset[str] = frozenset()
    keeps_turns: bool = False
    is_stock: bool = False
    read_again_by: str | None = None

    @property
    def uses(self) -> frozenset[str]:
        """Return what any of its requests uses."""
        return self.pool | {self.name}


@dataclass(frozen=True)
class Outcome:
    """One request. began, ended: `time.monotonic()`. gap_s: the longest between two chunks.

    uses: what may have failed it: the frontend, its pool, and `GUIDED` for a request that Dynamo
    never moves to another worker.
    """

    target: Target
    uses: frozenset[str]
    result: Result
    began: float
    ended: float
    note: str = ""
    gap_s: float = 0.0


def failed(
    target: Target, uses: frozenset[str], error: openai.OpenAIError | ExceptionGroup, began: float
) -> Outcome:
    """Return the outcome of a request that ended with an error.

    A connection that breaks is the frontend's fault, whatever happened to the workers.
    """
    breaks = isinstance(error, openai.APIConnectionError)
    if breaks and not isinstance(error, openai.APITimeoutError):
        uses = frozenset({target.name})
    note = f"{type(error).__name__}: {error}"
    return Outcome(target, uses, Result.FAILED, began, time.monotonic(), note)


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
        kind = self._choose_kind(target)
        self.asked[kind] += 1
        if kind == "options":
            return await self._ask_with_options(target, began)
        if kind == "turns":
            return await self._ask_twice(target, began)
        if kind == "slips":
            return await self._ask_slipping(target, began)
        transcript = self.random.choice(
            [each for each in TRANSCRIPTS.values() if target.follows_grammars or not guided(each)]
        )
        uses = target.uses | ({GUIDED} if guided(transcript) else set())
        gap = Gap()
        try:
            result, note = await self._send(kind, target, transcript, gap)
        except openai.BadRequestError as error:
            result = Result.REFUSED if kind == "bad" else Result.FAILED
            note = str(error)
        except (openai.OpenAIError, ExceptionGroup) as error:
            return failed(target, uses, error, began)
        return Outcome(target, uses, result, began, time.monotonic(), note, gap.longest_s)

    async def _ask_with_options(self, target: Target, began: float) -> Outcome:
        options = choose_options(self.random)
        uses = target.uses | ({GUIDED} if options.n > 1 else set())
        in_rust = target.is_stock or options.completion
        uses |= {HELD_IN_RUST} if in_rust and options.may_be_held else set()
        try:
            fault = find_fault(options, await gather(target.client, target.model, options))
        except (openai.OpenAIError, ExceptionGroup) as error:
            return failed(target, uses, error, began)
        result = Result.WRONG if fault else Result.RIGHT
        note = f"{options.summary}: {fault}" if fault else ""
        return Outcome(target, uses, result, began, time.monotonic(), note)

    async def _ask_slipping(self, target: Target, began: float) -> Outcome:
        try:
            fault = await slips.find_fault(target.client, target.model, self.random)
        except (openai.OpenAIError, ExceptionGroup) as error:
            return failed(target, target.uses, error, began)
        result = Result.WRONG if fault else Result.RIGHT
        return Outcome(target, target.uses, result, began, time.monotonic(), fault)

    async def _ask_twice(self, target: Target, began: float) -> Outcome:
        """Ask for a call, and send it back to a frontend that may be another one."""
        asked, tenant = target, f"{self.random.random()}"
        other = self.random.choice([each for each in self.targets if each.keeps_turns])
        uses = target.uses | other.uses
        try:
            first = await ask_for_call(asked.client, asked.model, [], tenant)
            called = whole(first).answer.message["tool_calls"]
            if called != CALL["expect"]["tool_calls"]:
                note = f"{called} instead of {CALL['expect']['tool_calls']}"
                return Outcome(target, uses, Result.WRONG, began, time.monotonic(), note)
            asked = other
            second = await ask_for_call(asked.client, asked.model, send_back(first), tenant)
        except (openai.OpenAIError, ExceptionGroup) as error:
            return failed(asked, uses, error, began)
        ended = second.choices[0].finish_reason is not None
        result = Result.RIGHT if ended else Result.FAILED
        return Outcome(target, uses, result, began, time.monotonic(), "" if ended else "no finish")

    def _choose_kind(self, target: Target) -> str:
        kinds = {
            "cancelled": CANCELLED_SHARE,
            "slow": SLOW_SHARE,
            "bad": BAD_SHARE,
            "whole": WHOLE_SHARE,
            "options": OPTIONS_SHARE if target.follows_grammars else 0.0,
            "turns": TURNS_SHARE if target.keeps_turns else 0.0,
        }
        kinds["streamed"] = 1 - sum(kinds.values())
        kinds = dict(target.shares or kinds)
        return self.random.choices(list(kinds), list(kinds.values()))[0]

    async def _send(
        self, kind: str, target: Target, transcript: Transcript, gap: Gap
    ) -> tuple[Result, str]:
        extra = {"extra_body": self.random.choice(BAD_REQUESTS)} if kind == "bad" else {}
        request = build_request(transcript, target.model, extra)
        completions = target.client.chat.completions
        if kind in ("whole", "bad"):
            answer = whole(await completions.create(**request)).answer
            if kind == "bad":
                return Result.WRONG, f"{extra} was not refused"
            return judge(answer, transcript, spell_whole(transcript, target.read_again_by))
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
        return judge(answer, transcript, transcript["expect"])


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


def spell_whole(transcript: Transcript, read_again_by: str | None) -> dict[str, Any]:
    """Return the answer without a stream, as it is spelled where Dynamo reads it again."""
    expected = as_whole(transcript["expect"])
    if read_again_by is None or not expected["content"] or expected["tool_calls"]:
        return expected
    has_tools = bool(transcript.get("tools")) and transcript.get("tool_choice") != "none"
    content = spell_inert(expected["content"], read_again_by, has_tools=has_tools)
    return {**expected, "content": content}


def judge(answer: Answer, transcript: Transcript, expected: dict[str, Any]) -> tuple[Result, str]:
    if answer.message == expected:
        return Result.RIGHT, ""
    return Result.WRONG, f"{transcript['id']}: {answer.message} instead of {expected}"


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
