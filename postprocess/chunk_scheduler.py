"""Decides when the deltas of a request are sent, so that fewer and larger chunks travel.

A chunk costs both sides of the wire tens of microseconds, however little it holds; that is many
times the cost of post-processing a token. So a delta waits for more of its kind, up to a limit:

- The first delta of a choice is sent at once, because users notice the time to the first word
  most. So is the finish, because resources wait for it.
- Later deltas may wait for the delay of their kind (`MergeDelays`): short for content, longer
  for reasoning, longest for tool arguments. If several kinds wait, the shortest delay counts.
- Tokens without a delta (held-back text, or an answer that is not streamed) wait for the delay
  `tokens`. It is bounded because Dynamo migrates a request with the tokens it has seen. If deltas
  carry ids or logprobs, tokens wait for theirs, since another worker cannot add them later.
- Streams of one kind send at common moments (`align_deadline`), so that one wake-up of threads
  and event loops serves many of them.
- The engine may collect tokens for part of the delay (`engine_wait_s`), which saves its own cost
  per output.

The caller owns the clock and does all waiting, so this works in an event loop, in a pool process
and under a test. `add` takes the engine's output; `due` says when `take` has something to send.
docs/decisions/0011-merge-delays.md has the measurements.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import floor, inf
from typing import get_args

import msgspec

from .call_hold import FaultyCall
from .choice import Choice
from .delta_builder import CallOutcome, DeltaKind
from .messages import ChoiceDelta, Chunk, PostprocessParams, Usage
from .postprocessor import Postprocessor
from .settings import MergeDelays
from .stage_timing import StageTime

KINDS: tuple[DeltaKind, ...] = get_args(DeltaKind)
# After this part of its delay a stream sends its next chunk.
PATIENCE = 0.9
# The part of a delay that stays unused: timers ring late, and sending takes time.
RESERVE = 0.03
# The common moments within a delay: few, so that streams meet, but more than one, so that a
# thousand streams do not send at once.
SLOTS = 2
# The part of a delay that tokens may wait in the engine. If the engine pauses we cannot fetch
# them, so most of the delay is spent on this side.
ENGINE_PART = 0.25


class ScheduledChunk(msgspec.Struct, array_like=True, gc=False):
    """A chunk to send: tokens of one choice, and their deltas.

    waited_s: age of its first token. finished: the deltas end the choice.
    usage: of the whole request, if the client wants it with this chunk.
    ended_early: the choice ends before the engine does.
    calls: outcomes of the choice's tool calls, if the deltas end it.
    times: time spent in each stage, for requests that are measured.
    faulty: the call that is to be generated again. Then nothing of it follows.
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
    faulty: FaultyCall | None = None


@dataclass(slots=True)
class _NextChunk:
    """The next chunk of one choice, while it is being filled.

    since: when its first token arrived. due: when it must be sent; infinite while it is empty.
    seen: how many of the choice's pending deltas `due` takes into account.
    kind: of the last delta. first_left: the first chunk was sent.
    has_news: the engine produced output since the last chunk. closed: the finish was sent, or all
        that comes before a call that is to be generated again.
    """

    choice: Choice
    token_ids: list[int] = field(default_factory=list)
    since: float = 0.0
    due: float = inf
    seen: int = 0
    kind: DeltaKind | None = None
    first_left: bool = False
    has_news: bool = False
    closed: bool = False


class ChunkScheduler:
    """Schedules the chunks of one request: a worker's `RequestStream` that runs in its event loop.

    due: when `take` has a chunk that may wait no longer; infinite while there is no chunk.
    idle, room: what `add` takes is processed at once, so nothing queues.
    """

    idle = True
    room = None

    def __init__(self, postprocessor: Postprocessor, delays: MergeDelays) -> None:
        self.postprocessor = postprocessor
        self.due = inf
        self._params = params = postprocessor.params
        # Attributes of this object because they are read for each token.
        self._delays = {kind: delays.delay(kind) for kind in KINDS}
        self._tokens_delay = inf if params.annotates_tokens else delays.tokens
        self._annotates = params.annotates_tokens
        self._engine_waits = {kind: engine_wait_s(params, delays, kind) for kind in (*KINDS, None)}
        self._next = [_NextChunk(choice) for choice in postprocessor.choices]
        self._resumed: list[ChoiceDelta] = []

    @property
    def oldest(self) -> float:
        """When the oldest unsent token arrived; infinite if all tokens were sent."""
        # A call that is being written does not wait to be sent.
        waiting = (chunk for chunk in self._next if len(chunk.token_ids) > chunk.choice.held_tokens)
        return min((chunk.since for chunk in waiting), default=inf)

    def resume(self, token_ids: Sequence[int], now: float) -> None:
        """Take tokens that a worker sent before it died; if they end a choice, that is due at once.

        Raises as `Postprocessor.feed`.
        """
        self._resumed = self.postprocessor.resume(token_ids)
        if self._resumed:
            first = self._next[0]
            first.since = first.due = self.due = now

    def add(self, chunk: Chunk, now: float, age_s: float = 0.0) -> None:
        """Take one chunk from the engine.

        age_s: the longest time that its first token may have waited in the engine.
        Raises IndexError and `ParserFailedError` as `Postprocessor.feed`.
        """
        following = self._next[chunk.index]
        if following.closed:
            return  # the engine's last output for a choice that has ended
        self.postprocessor.add(chunk)
        if not following.token_ids:
            following.since = now - age_s
        following.has_news = True
        following.token_ids += chunk.token_ids
        choice = following.choice
        # Most tokens change nothing: a delta of the same kind is already waiting.
        if (
            following.due == inf
            or choice.finished
            or len(choice.pending) != following.seen
            or (choice.hold is not None and choice.hold.fault is not None)
        ):
            self._set_due(following, now, age_s)

    def degrade(self, index: int, error: Exception, now: float) -> None:
        """Continue without the parser of a choice. Raises as `Postprocessor.degrade`."""
        self.postprocessor.degrade(index, error)
        self._set_due(self._next[index], now, 0.0)

    def forget(self, index: int, *, keeps_deltas: bool = False) -> None:
        """Drop the next chunk of a choice: another process has already sent it to the client.

        keeps_deltas: it was sent without those that a stream has now, since a parser held them.
        """
        chunk = self._next[index]
        if keeps_deltas and self._params.stream and chunk.choice.pending:
            chunk.token_ids.clear()
            return
        self._take(index, chunk, 0.0)
        self.due = min([chunk.due for chunk in self._next])

    def take(self, now: float) -> list[ScheduledChunk]:
        """Return the chunks that are due. Raises as `Postprocessor.take`."""
        if self.due > now:
            return []
        self.due = inf  # if post-processing raises, calling it again is pointless
        taken, due = [], inf
        for index, chunk in enumerate(self._next):
            if chunk.due <= now:
                taken.append(self._take(index, chunk, now))
            elif chunk.due < due:
                due = chunk.due
        self.due = due
        return taken

    def flush(self, now: float) -> None:
        """Make every chunk due: the engine sends no more output."""
        for chunk in self._next:
            if chunk.has_news and not chunk.closed:
                chunk.due = self.due = now

    def engine_wait_s(self, index: int) -> float:
        """Return how long the engine may collect tokens of a choice."""
        return self._engine_waits[self._next[index].kind]

    def close(self) -> None:
        """Do nothing: no other object holds the request."""

    def _set_due(self, chunk: _NextChunk, now: float, age_s: float) -> None:
        due, choice = chunk.due, chunk.choice
        if choice.finished or choice.faulty is not None:
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
            # The first tokens of an answer that is not streamed are sent at once: they tell
            # the router that prefill is over.
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
        finished, faulty = choice.finished, choice.faulty
        chunk.closed = finished or faulty is not None
        # The last finish to be sent carries usage, however many choices have finished by now.
        ends = finished and all(other.closed for other in self._next)
        usage = self.postprocessor.usage if ends or self._params.continuous_usage_stats else None
        token_ids, chunk.token_ids = self._cut_tokens(chunk)
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
            faulty,
        )

    def _cut_tokens(self, chunk: _NextChunk) -> tuple[list[int], list[int]]:
        """Return the tokens to send, and those that wait for the delta with their ids."""
        token_ids = chunk.token_ids
        waiting = chunk.choice.held_tokens
        if self._annotates and not chunk.choice.finished:
            waiting += chunk.choice.annotated if self._params.stream else len(token_ids)
        if not waiting:
            return token_ids, []
        sent = max(0, len(token_ids) - waiting)
        return token_ids[:sent], token_ids[sent:]


def align_deadline(deadline: float, delay: float) -> float:
    """Return the last common moment before `deadline` of the streams with this delay.

    Half the cost of a chunk is waking threads and event loops on both sides of the wire.
    Chunks that leave at the same moment share one wake-up.
    """
    if not 0 < delay < inf:
        return deadline
    slot = PATIENCE * delay / SLOTS
    return floor((deadline - RESERVE * delay) / slot) * slot


def engine_wait_s(params: PostprocessParams, delays: MergeDelays, kind: DeltaKind | None) -> float:
    """Return how long the engine may collect tokens; 0 while a stop string may end the answer.

    kind: of the text that is being written; None if unknown.
    """
    if params.stop:
        return 0.0
    if not params.stream:
        return ENGINE_PART * delays.tokens
    if kind is None or kind == "finish":
        return ENGINE_PART * delays.shortest
    return ENGINE_PART * delays.delay(kind)
