"""Fewer, better chunks: deltas of one request, merged up to a time bound for each kind of text.

A chunk costs both sides of the wire tens of microseconds whatever is in it, and only
here it is known what a token means. The clock is the caller's: nothing in this file
waits, so it works in an event loop, in a process of the pool and under a test.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import floor, inf
from typing import Literal

import msgspec

from .choice import Choice
from .delta_builder import CallOutcome, DeltaKind
from .messages import ChoiceDelta, Chunk, PostprocessParams, Usage
from .postprocessor import Postprocessor
from .stage_timing import Clock, StageTime

Latency = Literal["lowest", "balanced", "throughput"]


class MergeDelays(msgspec.Struct, frozen=True, kw_only=True):
    """For how many seconds what came first may wait for more: a delta of each kind, or tokens without any text.

    tokens: text that is held back, or all of it without a stream. Dynamo migrates a
        request with the tokens it has seen, so they may not wait for ever.
    """

    content: float = 0.0
    reasoning: float = 0.0
    tools: float = 0.0
    tokens: float = 1.0

    def of(self, kind: DeltaKind) -> float:
        """Return the bound of a delta of this kind; a finish alone does not wait."""
        return 0.0 if kind == "finish" else float(getattr(self, kind))

    @property
    def shortest(self) -> float:
        """The least bound of any text."""
        return min(self.content, self.reasoning, self.tools)


# docs/decisions/0011-merge-delays.md has the measurements behind these.
MERGE_DELAYS: dict[Latency, MergeDelays] = {
    "lowest": MergeDelays(),
    "balanced": MergeDelays(content=0.1, reasoning=0.2, tools=0.5),
    "throughput": MergeDelays(content=0.3, reasoning=1.0, tools=2.0, tokens=5.0),
}
# The part of a bound after which a stream's chunks leave, one after the other.
PATIENCE = 0.9
# The part of a bound that is never waited: for a timer that rings late, and for the way out.
RESERVE = 0.03
# Streams of one kind leave at as many moments within a bound: few enough to meet each other,
# and more than one, so that a thousand streams do not come all at once.
SLOTS = 2
# The part of a bound that tokens may wait in the engine. They cannot be called from
# there when the engine pauses, so most of the bound stays here.
ENGINE_PART = 0.25


class ScheduledChunk(msgspec.Struct, array_like=True):
    """What goes out in one chunk, of one choice.

    waited_s: since the first of the tokens came. finished: these deltas end the choice.
    usage: of the whole request, where the client is to see it. ended_early: and the engine would go on.
    calls: of the choice, if these deltas end it. times: of a request whose stages are measured.
    """

    index: int
    token_ids: list[int]
    deltas: list[ChoiceDelta]
    waited_s: float = 0.0
    usage: Usage | None = None
    finished: bool = False
    ended_early: bool = False
    calls: list[CallOutcome] = []
    times: list[StageTime] = []


class _Waiting:
    """What waits to be taken, of one choice."""

    __slots__ = (
        "choice",
        "closed",
        "due",
        "kind",
        "kinds",
        "opened",
        "since",
        "token_ids",
        "touched",
    )

    def __init__(self, choice: Choice) -> None:
        self.choice = choice
        self.token_ids: list[int] = []
        self.since = 0.0
        self.due = inf
        self.kinds = 0  # of the choice's pending deltas, how many have been seen
        self.kind: DeltaKind | None = None
        self.opened = False
        self.touched = False  # since it was taken last
        self.closed = False


class ChunkScheduler:
    """One request in post-processing, its deltas merged.

    due: when `take` has something that may not wait any longer; infinite while there is nothing.
    """

    def __init__(self, post: Postprocessor, delays: MergeDelays) -> None:
        self.post = post
        self.due = inf
        self._params = post.params
        self._delays = delays
        self._waiting = [_Waiting(post.choice(index)) for index in range(post.params.n)]
        self._resumed: list[ChoiceDelta] = []

    @property
    def oldest(self) -> float:
        """When the first token came that has not been taken; infinite if all have."""
        return min((waiting.since for waiting in self._waiting if waiting.token_ids), default=inf)

    def measure(self, clock: Clock) -> None:
        """Have what each stage takes measured from now on."""
        for waiting in self._waiting:
            waiting.choice.measure(clock)

    def resume(self, token_ids: Sequence[int], now: float) -> None:
        """Take tokens that the client has got from a worker which died; if they end the choice, that is due."""
        self._resumed = self.post.resume(token_ids)
        if not self._resumed:
            return
        waiting = self._waiting[0]
        waiting.since = waiting.due = self.due = now

    def add(self, chunk: Chunk, now: float, age_s: float = 0.0) -> None:
        """Take a chunk of the engine.

        age_s: how long its first token may have waited in the engine.
        Raises IndexError and `ParserFailedError` as `Postprocessor.feed`.
        """
        waiting = self._waiting[chunk.index]
        if waiting.closed:
            return  # the engine's last words on a choice that has ended
        choice = waiting.choice
        if chunk.prompt_tokens is not None or chunk.cached_tokens is not None:
            self.post.note_usage(chunk)
        if not choice.finished:
            choice.feed(chunk)
        if not waiting.token_ids:
            waiting.since = now - age_s
        waiting.touched = True
        waiting.token_ids += chunk.token_ids
        # For most tokens nothing changes: something waits already, and there is no new kind.
        if waiting.due == inf or choice.finished or len(choice.pending) != waiting.kinds:
            self._set_due(waiting, now, age_s)

    def degrade(self, index: int, error: Exception, now: float) -> None:
        """Leave the parser of a choice, as `Choice.degrade` does. Raises `ParserFailedError` as that."""
        waiting = self._waiting[index]
        waiting.choice.degrade(error)
        self._set_due(waiting, now, 0.0)

    def forget(self, index: int) -> None:
        """Drop what waits of a choice: the client has got it from another process."""
        self._take(index, self._waiting[index], 0.0)
        self.due = min(waiting.due for waiting in self._waiting)

    def _set_due(self, waiting: _Waiting, now: float, age_s: float) -> None:
        due, choice = waiting.due, waiting.choice
        if choice.finished:
            due = now
        elif self._params.stream and len(pending := choice.pending) > waiting.kinds:
            waiting.kind = pending[-1]
            if waiting.opened:
                bound = min(map(self._delays.of, pending[waiting.kinds :]))
                due = min(due, align_deadline(now - age_s + bound, bound))
            else:
                due = now
            waiting.kinds = len(pending)
        elif due == inf:
            # Without a stream the first tokens go at once: a router counts on them for the end of prefill.
            bound = self._delays.tokens if waiting.opened or self._params.stream else 0.0
            due = align_deadline(waiting.since + bound, bound)
        if due != waiting.due:
            waiting.due = due
            self.due = min(self.due, due)

    def take(self, now: float) -> list[ScheduledChunk]:
        """Return what is due."""
        if self.due > now:
            return []
        taken = [
            self._take(index, waiting, now)
            for index, waiting in enumerate(self._waiting)
            if waiting.due <= now
        ]
        self.due = min(waiting.due for waiting in self._waiting)
        return taken

    def flush(self, now: float) -> None:
        """Make everything due: nothing more will come."""
        for waiting in self._waiting:
            if waiting.touched and not waiting.closed:
                waiting.due = self.due = now

    def engine_wait_s(self, index: int) -> float:
        """See `engine_wait_s` below; the kind is that of the text that came last."""
        return engine_wait_s(self._params, self._delays, self._waiting[index].kind)

    def _take(self, index: int, waiting: _Waiting, now: float) -> ScheduledChunk:
        choice = waiting.choice
        deltas = self._resumed or self.post.take(index)
        self._resumed = []
        finished = waiting.closed = choice.finished
        usage = None
        # With the last finish to go out, however many choices have finished by now.
        if self._params.continuous_usage_stats or (
            finished and all(other.closed for other in self._waiting)
        ):
            usage = self.post.usage
        token_ids, waiting.token_ids = waiting.token_ids, []
        waiting.due = inf
        waiting.kinds = 0
        waiting.touched = False
        waiting.opened = waiting.opened or bool(deltas) or not self._params.stream
        waited_s = max(0.0, now - waiting.since)
        calls = choice.calls if finished else []
        times = choice.take_times()
        return ScheduledChunk(
            index, token_ids, deltas, waited_s, usage, finished, choice.ended_early, calls, times
        )


def align_deadline(due: float, bound: float) -> float:
    """Return the last moment within `bound` at which other streams are likely to be due, too.

    Half of what a chunk costs is waking up: threads and event loops, on both sides of the
    wire. Chunks of many streams that leave at one moment wake them once.
    due: when the bound is over.
    """
    if not bound:
        return due
    slot = PATIENCE * bound / SLOTS
    return floor((due - RESERVE * bound) / slot) * slot


def engine_wait_s(params: PostprocessParams, delays: MergeDelays, kind: DeltaKind | None) -> float:
    """Return for how long the engine may collect tokens: not at all while a stop string may have to end it.

    kind: of the text that is being written, None if that is not known.
    """
    if params.stop:
        return 0.0
    if not params.stream:
        return ENGINE_PART * delays.tokens
    return ENGINE_PART * (delays.shortest if kind is None or kind == "finish" else delays.of(kind))
