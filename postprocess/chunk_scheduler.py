"""Decides when the deltas of a request leave, so that fewer and better chunks travel.

A chunk costs both sides of the wire tens of microseconds whatever it holds, many times the cost
of post-processing a token, and only this side of the wire knows what a token means. So deltas
wait for more of their kind, up to a time limit for each kind:

- The first delta of a choice leaves at once: people notice the time to the first word most. So
  does the finish, since resources wait for it.
- Later deltas may wait for the delay of their kind (`MergeDelays`): short for content, longer
  for reasoning, longest for tool arguments. With several kinds waiting the shortest counts.
- Tokens without a delta (held-back text, or all of an answer without a stream) wait for the
  delay `tokens`. It is bounded because Dynamo migrates a request with the tokens it has seen.
- Streams of one kind leave at common moments (`align_deadline`), so that one wake-up of threads
  and event loops serves many of them.
- The engine may collect tokens for a part of the delay (`engine_wait_s`), which spares its own
  cost per output.

The clock is the caller's: nothing in this file waits, so it works in an event loop, in a
process of the pool and under a test. `add` takes what the engine says, `due` tells when `take`
has something to send. docs/decisions/0011-merge-delays.md has the measurements.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import floor, inf
from typing import Literal, get_args

import msgspec

from .choice import Choice
from .delta_builder import CallOutcome, DeltaKind
from .messages import ChoiceDelta, Chunk, PostprocessParams, Usage
from .migration import resume
from .postprocessor import Postprocessor
from .stage_timing import StageTime

KINDS: tuple[DeltaKind, ...] = get_args(DeltaKind)
Latency = Literal["lowest", "balanced", "throughput"]


class MergeDelays(msgspec.Struct, frozen=True, kw_only=True):
    """How long a delta of each kind may wait for more of its kind, in seconds.

    tokens: the same for tokens without a delta.
    """

    content: float = 0.0
    reasoning: float = 0.0
    tools: float = 0.0
    tokens: float = 1.0

    def delay(self, kind: DeltaKind) -> float:
        """Return the delay of a delta of this kind; a finish does not wait."""
        return 0.0 if kind == "finish" else float(getattr(self, kind))

    @property
    def shortest(self) -> float:
        """The shortest delay of a delta."""
        return min(self.content, self.reasoning, self.tools)


MERGE_DELAYS: dict[Latency, MergeDelays] = {
    "lowest": MergeDelays(),
    "balanced": MergeDelays(content=0.1, reasoning=0.2, tools=0.5),
    "throughput": MergeDelays(content=0.3, reasoning=1.0, tools=2.0, tokens=5.0),
}
# The chunks of a stream follow each other after this part of their delay.
PATIENCE = 0.9
# The part of a delay that is never used: timers ring late, and the way out takes time.
RESERVE = 0.03
# The common moments within a delay: few, so that streams meet at them, and more than one, so
# that a thousand streams do not leave all at once.
SLOTS = 2
# The part of a delay that tokens may wait in the engine. They cannot be called from there when
# the engine pauses, so most of the delay stays on this side.
ENGINE_PART = 0.25


class ScheduledChunk(msgspec.Struct, array_like=True, gc=False):
    """One chunk to send: tokens of one choice, and their deltas.

    waited_s: time since the first of the tokens came. finished: the deltas end the choice.
    usage: of the whole request, if the client is to see it with this chunk.
    ended_early: the choice ends while the engine would go on.
    calls: outcomes of the choice's tool calls, if the deltas end it.
    times: of the stages, in a request where they are measured.
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


class _NextChunk:
    """The next chunk of one choice, while it grows.

    since: when its first token came. due: when it has to leave; infinite while there is nothing.
    seen: the number of the choice's pending deltas that `due` takes into account.
    kind: of the last delta. first_left: the first chunk has left. has_news: the engine has
    spoken since the last chunk left. closed: the finish has left.
    """

    __slots__ = (
        *("choice", "closed", "due", "first_left", "has_news"),
        *("kind", "seen", "since", "token_ids"),
    )

    def __init__(self, choice: Choice) -> None:
        self.choice = choice
        self.token_ids: list[int] = []
        self.since = 0.0
        self.due = inf
        self.seen = 0
        self.kind: DeltaKind | None = None
        self.first_left = False
        self.has_news = False
        self.closed = False


class ChunkScheduler:
    """Schedules the chunks of one request.

    due: when `take` has something that may not wait any longer; infinite while there is nothing.
    """

    def __init__(self, postprocessor: Postprocessor, delays: MergeDelays) -> None:
        self.postprocessor = postprocessor
        self.due = inf
        self._params = params = postprocessor.params
        # By kind of text, since each token asks for them.
        self._delays = {kind: delays.delay(kind) for kind in KINDS}
        self._tokens_delay = delays.tokens
        self._engine_waits = {kind: engine_wait_s(params, delays, kind) for kind in (*KINDS, None)}
        self._next = [_NextChunk(choice) for choice in postprocessor.choices]
        self._resumed: list[ChoiceDelta] = []

    @property
    def oldest(self) -> float:
        """When the first token came that has not left; infinite if all have."""
        return min((chunk.since for chunk in self._next if chunk.token_ids), default=inf)

    def resume(self, token_ids: Sequence[int], now: float) -> None:
        """Take tokens that a worker which died has sent; a finish that they bring is due at once.

        Raises as `Postprocessor.feed`.
        """
        self._resumed = resume(self.postprocessor, token_ids)
        if self._resumed:
            first = self._next[0]
            first.since = first.due = self.due = now

    def add(self, chunk: Chunk, now: float, age_s: float = 0.0) -> None:
        """Take a chunk of the engine.

        age_s: how long its first token may have waited in the engine.
        Raises IndexError and `ParserFailedError` as `Postprocessor.feed`.
        """
        following = self._next[chunk.index]
        if following.closed:
            return  # the engine's last words on a choice that has ended
        self.postprocessor.add(chunk)
        if not following.token_ids:
            following.since = now - age_s
        following.has_news = True
        following.token_ids += chunk.token_ids
        choice = following.choice
        # Most tokens change nothing: a delta waits already, and theirs is of the same kind.
        if following.due == inf or choice.finished or len(choice.pending) != following.seen:
            self._set_due(following, now, age_s)

    def degrade(self, index: int, error: Exception, now: float) -> None:
        """Leave the parser of a choice, as `Postprocessor.degrade` does. Raises as that."""
        self.postprocessor.degrade(index, error)
        self._set_due(self._next[index], now, 0.0)

    def forget(self, index: int) -> None:
        """Drop the next chunk of a choice: the client has got it from another process."""
        self._take(index, self._next[index], 0.0)
        self.due = min([chunk.due for chunk in self._next])

    def take(self, now: float) -> list[ScheduledChunk]:
        """Return the chunks that are due. Raises as `Postprocessor.take`."""
        if self.due > now:
            return []
        self.due = inf  # if post-processing raises, there is no point in asking it again
        taken, due = [], inf
        for index, chunk in enumerate(self._next):
            if chunk.due <= now:
                taken.append(self._take(index, chunk, now))
            elif chunk.due < due:
                due = chunk.due
        self.due = due
        return taken

    def flush(self, now: float) -> None:
        """Make everything due: nothing more will come."""
        for chunk in self._next:
            if chunk.has_news and not chunk.closed:
                chunk.due = self.due = now

    def engine_wait_s(self, index: int) -> float:
        """Return for how long the engine may collect tokens of a choice."""
        return self._engine_waits[self._next[index].kind]

    def _set_due(self, chunk: _NextChunk, now: float, age_s: float) -> None:
        due, choice = chunk.due, chunk.choice
        if choice.finished:
            due = now
        elif self._params.stream and len(pending := choice.pending) > chunk.seen:
            chunk.kind = pending[-1]
            if chunk.first_left:
                delay = min([self._delays[kind] for kind in pending[chunk.seen :]])
                due = min(due, align_deadline(now - age_s + delay, delay))
            else:
                due = now
            chunk.seen = len(pending)
        elif due == inf:
            # Without a stream the first tokens leave at once: a router waits for them to know
            # that prefill is over.
            waits = chunk.first_left or self._params.stream
            delay = self._tokens_delay if waits else 0.0
            due = align_deadline(chunk.since + delay, delay)
        if due != chunk.due:
            chunk.due = due
            self.due = min(self.due, due)

    def _take(self, index: int, chunk: _NextChunk, now: float) -> ScheduledChunk:
        choice = chunk.choice
        deltas = self._resumed or self.postprocessor.take(index)
        self._resumed = []
        finished = chunk.closed = choice.finished
        # Usage goes with the last finish to leave, however many choices have finished by now.
        ends = finished and all(other.closed for other in self._next)
        usage = self.postprocessor.usage if ends or self._params.continuous_usage_stats else None
        token_ids, chunk.token_ids = chunk.token_ids, []
        chunk.due = inf
        chunk.seen = 0
        chunk.has_news = False
        chunk.first_left = chunk.first_left or bool(deltas) or not self._params.stream
        return ScheduledChunk(
            index,
            token_ids,
            deltas,
            now - chunk.since if now > chunk.since else 0.0,
            usage,
            finished,
            choice.ended_early,
            choice.calls if finished else [],
            choice.take_times(),
        )


def align_deadline(deadline: float, delay: float) -> float:
    """Return the last common moment of streams of this delay before `deadline`.

    Half the cost of a chunk is waking up threads and event loops, on both sides of the wire.
    Chunks of many streams that leave at one moment wake them once.
    """
    if not delay:
        return deadline
    slot = PATIENCE * delay / SLOTS
    return floor((deadline - RESERVE * delay) / slot) * slot


def engine_wait_s(params: PostprocessParams, delays: MergeDelays, kind: DeltaKind | None) -> float:
    """Return for how long the engine may collect tokens: 0 while a stop string may end it.

    kind: of the text that is being written, None if that is not known.
    """
    if params.stop:
        return 0.0
    if not params.stream:
        return ENGINE_PART * delays.tokens
    if kind is None or kind == "finish":
        return ENGINE_PART * delays.shortest
    return ENGINE_PART * delays.delay(kind)
