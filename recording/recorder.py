"""Notes what happens to a request while it is answered.

Each engine output and each chunk sent costs one list entry while the request runs. The writer's
thread builds and redacts the recording afterwards.
"""

from __future__ import annotations

import functools
import hashlib
import secrets
import sys
import time
from array import array
from collections.abc import Callable, Iterable, Sequence

import msgspec

from ..base.limits import MAX_HELD_TOKENS, MAX_RECORDED_TOKENS, SAMPLE_AHEAD, TAIL_TOKENS
from ..parsers.base import ParserNames
from ..postprocess.logprobs import finite
from ..postprocess.messages import ChoiceDelta, Chunk, PostprocessParams
from .flags import RecordSettings
from .recording import (
    DiscardedCall,
    Outcome,
    RecordedChunk,
    RecordedDeltas,
    RecordedModel,
    RecordedPrompt,
    Recording,
    Source,
)
from .redaction import Redactor, redact_recording
from .writer import RecordingWriter

# Dynamo passes the header x-dynamo-meta-NAME as metadata to frontend and worker.
METADATA_KEY = "backedge-record"
_ASKED = ("1", "on", "true")
_RANDOM = secrets.SystemRandom()
draw = _RANDOM.random
MS_PER_S = 1000
_ROUNDED_MS = 3  # digits of a time in ms


def read_metadata(context: object, name: str) -> object:
    """Return a request's header x-dynamo-meta-`name`; None without it. context: Dynamo's."""
    metadata = getattr(context, "metadata", None)
    return None if metadata is None else metadata.get(name)


class Sample:
    """Selects a share of the requests; clients have no part in it.

    A frontend that records sends its draw along, so that its workers record the same requests. Such
    draws select no more than `share` of the requests, and `SAMPLE_AHEAD` at once.
    """

    def __init__(self, share: float) -> None:
        self._share = share
        self._left: float = SAMPLE_AHEAD

    def selects(self, drawn: float | None) -> bool:
        """Whether a request is in the sample. drawn: by the frontend; None for a draw here."""
        if drawn is None:
            return draw() < self._share
        self._left = min(self._left + self._share, SAMPLE_AHEAD)
        if not 0 <= drawn < self._share or self._left < 1:
            return False
        self._left -= 1
        return True


class Recorder:
    """Records the requests of one model in one process.

    model: as it appears in recordings. make_redactor: called once, in the writer's thread.
    """

    def __init__(
        self,
        settings: RecordSettings,
        writer: RecordingWriter,
        source: Source,
        model: RecordedModel,
        make_redactor: Callable[[], Redactor],
    ) -> None:
        self.settings = settings
        self.writer = writer
        self.source: Source = source
        self.model = model
        self.redactor = functools.cache(make_redactor)
        self._sample = Sample(settings.sample)
        # Only one thread changes each of these.
        self.taken = 0  # tokens of started requests
        self.released = 0  # tokens of requests that were written or dropped

    def without_parsers(self) -> Recorder:
        """Return a recorder for requests whose text the frontend parses."""
        model = msgspec.structs.replace(self.model, parsers=ParserNames(), kind="auto")
        return Recorder(self.settings, self.writer, self.source, model, self.redactor)

    def start(
        self, params: PostprocessParams, token_ids: Sequence[int], context: object = None
    ) -> RequestRecorder | None:
        """Return a recorder for one request; None if it is not to be recorded.

        token_ids: of the prompt, then of a worker that died. context: Dynamo's.
        """
        if not (self._sample.selects(params.draw) or self._is_asked(context)):
            return None
        if self.taken - self.released >= MAX_HELD_TOKENS:
            self.writer.lose("overload", f"{MAX_HELD_TOKENS} tokens are already held")
            return None
        return RequestRecorder(self, params, token_ids, MAX_RECORDED_TOKENS)

    def _is_asked(self, context: object) -> bool:
        if not self.settings.on_request:
            return False
        asked = read_metadata(context, METADATA_KEY)
        return isinstance(asked, str) and asked.lower() in _ASKED


def hash_ids(token_ids: Sequence[int]) -> str:
    """Return the SHA-256 of token ids as little-endian 64-bit numbers, in hexadecimal."""
    numbers = array("Q", token_ids)
    if sys.byteorder == "big":
        numbers.byteswap()
    return hashlib.sha256(numbers.tobytes()).hexdigest()


def keep_finite(chunk: Chunk) -> Chunk:
    """Return `chunk` with logprobs as a client gets them: JSON cannot express minus infinity."""
    if chunk.logprobs is None and chunk.top_logprobs is None:
        return chunk
    tops = [
        [msgspec.structs.replace(item, logprob=finite(item.logprob)) for item in items]
        for items in chunk.top_logprobs or ()
    ]
    return msgspec.structs.replace(
        chunk,
        logprobs=chunk.logprobs and [*map(finite, chunk.logprobs)],
        top_logprobs=chunk.top_logprobs and tops,
    )


class RequestRecorder(msgspec.Struct):
    """Records one request. Times are seconds on the event loop's clock.

    token_ids: of its prompt, followed by those that a worker generated before it died.
    began: when it arrived, in seconds since 1970. since: the same on the event loop's clock.
    times: of `chunks`. room: number of tokens that may still be recorded; below 0 none may.
    weight: memory of the recorded tokens, in tokens.
    """

    recorder: Recorder
    params: PostprocessParams
    token_ids: Sequence[int]
    room: int
    began: float = msgspec.field(default_factory=time.time)
    since: float = 0.0
    # Two flat lists instead of pairs, which the garbage collector would have to visit.
    times: list[float] = []
    chunks: list[Chunk] = []
    deltas: list[tuple[float, list[ChoiceDelta]]] = []
    discarded: list[tuple[str, int, list[tuple[float, Chunk]]]] = []
    weight: int = 0
    dropped: int = 0
    ended: bool = False

    def begin(self, now: float) -> None:
        """Note when the request arrived."""
        self.since = now

    def add(self, chunk: Chunk, now: float) -> None:
        """Note an engine output."""
        weight = tokens = len(chunk.token_ids)
        room = self.room - tokens
        if room < 0:
            # Stop recording here for good, so that the recording has no gap.
            self.room = -1
            self.dropped += tokens
            return
        self.room = room
        if tops := chunk.top_logprobs:
            # An alternative takes as much memory as a token.
            weight *= 1 + len(tops[0])
        self.weight += weight
        self.recorder.taken += weight
        self.times.append(now)
        self.chunks.append(chunk)

    def take_back(self, tokens: int, reason: str) -> None:
        """Set the last tokens aside: their call is generated again. reason: why."""
        taken: list[tuple[float, Chunk]] = []
        while tokens > 0 and self.chunks and self.room >= 0:
            chunk, at = self.chunks.pop(), self.times.pop()
            size = len(chunk.token_ids)
            left = max(0, size - tokens)
            taken.append((at, chunk.cut(left, size)))
            tokens -= size
            if left:
                self.chunks.append(chunk.cut(0, left))
                self.times.append(at)
        if taken:
            self.discarded.append((reason, len(self.chunks), taken[::-1]))

    def restart(self) -> None:
        """Forget all chunks: the answer begins anew at another worker."""
        self.chunks.clear()
        self.times.clear()

    def sent(self, deltas: list[ChoiceDelta], now: float) -> None:
        """Note deltas that are being sent."""
        if deltas and not self.dropped:
            self.deltas.append((now, deltas))

    def end(self, outcome: Outcome, error: str | None = None) -> None:
        """Pass the recording to the writer. Call this once. error: of a failed request."""
        if self.ended:
            return
        self.ended = True
        recorder = self.recorder

        def build() -> Recording:
            try:
                settings = recorder.settings
                whole = self.build(outcome, error)
                return whole if settings.content else redact_recording(whole, recorder.redactor())
            finally:
                recorder.released += self.weight

        if not recorder.writer.submit(build):
            recorder.taken -= self.weight

    def build(self, outcome: Outcome = "finished", error: str | None = None) -> Recording:
        """Return the unredacted recording."""
        settings, length = self.recorder.settings, self.params.prompt_length
        prompt, resumed = list(self.token_ids[:length]), list(self.token_ids[length:])
        # The tokens of a worker that died are the first chunk.
        first = [RecordedChunk(0.0, Chunk(token_ids=resumed))] if resumed else []
        return Recording(
            source=self.recorder.source,
            began=self.began,
            model=self.recorder.model,
            params=self.params,
            prompt=RecordedPrompt(
                sha256=hash_ids(prompt),
                token_ids=prompt if settings.content and settings.prompts else None,
                tail=prompt[-TAIL_TOKENS:],
            ),
            chunks=first + self._record(zip(self.times, self.chunks, strict=True)),
            sent=[RecordedDeltas(self._at_ms(at), deltas) for at, deltas in self.deltas],
            outcome=outcome,
            error=error,
            resumed=len(resumed),
            dropped=self.dropped,
            discarded=[
                DiscardedCall(reason, len(first) + after, self._record(chunks))
                for reason, after, chunks in self.discarded
            ],
        )

    def _record(self, chunks: Iterable[tuple[float, Chunk]]) -> list[RecordedChunk]:
        return [RecordedChunk(self._at_ms(at), keep_finite(chunk)) for at, chunk in chunks]

    def _at_ms(self, at: float) -> float:
        return round((at - self.since) * MS_PER_S, _ROUNDED_MS)
