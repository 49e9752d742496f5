"""Notes what happens to a request while it is answered.

Each engine output and each chunk sent costs one list entry while the request runs. The writer's
thread builds and redacts the recording afterwards.
"""

from __future__ import annotations

import functools
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import msgspec

from ..base.limits import MAX_HELD_TOKENS, MAX_RECORDED_TOKENS
from ..parsers.base import ParserNames
from ..postprocess.messages import ChoiceDelta, Chunk, PostprocessParams
from .flags import RecordSettings
from .recording import Outcome, RecordedModel, Recording, Source
from .redaction import Redactor
from .request_notes import RequestNotes
from .writer import RecordingWriter

# Dynamo passes the header x-dynamo-meta-NAME as metadata to frontend and worker.
METADATA_KEY = "backedge-record"
_ASKED = ("1", "on", "true")
_HASHES = 1 << 32


class RequestContext(Protocol):
    """The part of Dynamo's request `Context` that is read here."""

    @property
    def metadata(self) -> Mapping[str, str]:
        """The request's headers x-dynamo-meta-*."""
        ...


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
        if not (self._is_drawn(params.response_id) or self._is_asked(context)):
            return None
        if self.taken - self.released >= MAX_HELD_TOKENS:
            self.writer.lose("overload", f"{MAX_HELD_TOKENS} tokens are already held")
            return None
        return RequestRecorder(self, params, token_ids)

    def _is_drawn(self, response_id: str) -> bool:
        """Whether the request is in the sample; frontend and worker agree."""
        sample = self.settings.sample
        return zlib.crc32(response_id.encode("utf-8", "replace")) < sample * _HASHES

    def _is_asked(self, context: object) -> bool:
        if not self.settings.on_request:
            return False
        metadata = getattr(context, "metadata", None)
        asked = None if metadata is None else metadata.get(METADATA_KEY)
        return isinstance(asked, str) and asked.lower() in _ASKED


class RequestRecorder:
    """Records one request. Times are seconds on the event loop's clock."""

    __slots__ = (
        "_began",
        "_chunks",
        "_dropped",
        "_ended",
        "_params",
        "_recorder",
        "_room",
        "_sent",
        "_since",
        "_times",
        "_token_ids",
        "_weight",
    )

    def __init__(
        self, recorder: Recorder, params: PostprocessParams, token_ids: Sequence[int]
    ) -> None:
        self._recorder = recorder
        self._params = params
        self._token_ids = token_ids
        self._began = time.time()
        self._since = 0.0
        self._times: list[float] = []
        self._chunks: list[Chunk] = []
        self._sent: list[tuple[float, list[ChoiceDelta]]] = []
        self._room = MAX_RECORDED_TOKENS
        self._dropped = 0
        self._weight = 0
        self._ended = False

    def begin(self, now: float) -> None:
        """Note when the request arrived."""
        self._since = now

    def add(self, chunk: Chunk, now: float) -> None:
        """Note an engine output."""
        weight = tokens = len(chunk.token_ids)
        room = self._room - tokens
        if room < 0:
            # Stop recording here for good, so that the recording has no gap.
            self._room = -1
            self._dropped += tokens
            return
        self._room = room
        if tops := chunk.top_logprobs:
            # An alternative takes as much memory as a token.
            weight *= 1 + len(tops[0])
        self._weight += weight
        self._recorder.taken += weight
        # Two flat lists instead of pairs, which the garbage collector would have to visit.
        self._times.append(now)
        self._chunks.append(chunk)

    def sent(self, deltas: list[ChoiceDelta], now: float) -> None:
        """Note deltas that are being sent."""
        if deltas and not self._dropped:
            self._sent.append((now, deltas))

    def end(self, outcome: Outcome, error: str | None = None) -> None:
        """Pass the notes to the writer. Call this once. error: of a failed request."""
        if self._ended:
            return
        self._ended = True
        recorder, weight = self._recorder, self._weight

        def build() -> Recording:
            try:
                request = self._finish(outcome, error)
                if recorder.settings.content:
                    return request.build(with_prompt=recorder.settings.prompts)
                return request.build_redacted(recorder.redactor())
            finally:
                recorder.released += weight

        if not recorder.writer.submit(build):
            recorder.taken -= weight

    def _finish(self, outcome: Outcome, error: str | None) -> RequestNotes:
        """Collect the notes; runs in the writer's thread."""
        return RequestNotes(
            source=self._recorder.source,
            model=self._recorder.model,
            began=self._began,
            since=self._since,
            params=self._params,
            token_ids=self._token_ids,
            chunks=list(zip(self._times, self._chunks, strict=True)),
            sent=self._sent,
            outcome=outcome,
            error=error,
            dropped=self._dropped,
        )
