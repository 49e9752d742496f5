"""The notes that a recorder takes on a request, and the recording made from them."""

from __future__ import annotations

import hashlib
import sys
from array import array
from collections.abc import Sequence

import msgspec

from ..base.limits import TAIL_TOKENS
from ..postprocess.logprobs import finite
from ..postprocess.messages import ChoiceDelta, Chunk, PostprocessParams
from .recording import (
    Outcome,
    RecordedChunk,
    RecordedDeltas,
    RecordedModel,
    RecordedPrompt,
    Recording,
    Source,
)
from .redacted_params import redact_params
from .redaction import Redactor, RequestRedactor

MS_PER_S = 1000
_ROUNDED_MS = 3  # digits of a time in ms


class RequestNotes(msgspec.Struct, frozen=True, kw_only=True):
    """The notes on a request.

    since: when it arrived, on the event loop's clock, as the times in `chunks` and `sent`.
    token_ids: of its prompt, followed by those that a worker generated before it died.
    """

    source: Source
    model: RecordedModel
    began: float
    since: float
    params: PostprocessParams
    token_ids: Sequence[int]
    chunks: list[tuple[float, Chunk]]
    sent: list[tuple[float, list[ChoiceDelta]]]
    outcome: Outcome
    error: str | None = None
    dropped: int = 0

    def build(self, *, with_prompt: bool) -> Recording:
        """Return the unredacted recording. with_prompt: include the prompt's token ids."""
        ids = list(self._prompt) if with_prompt else None
        return Recording(
            source=self.source,
            began=self.began,
            model=self.model,
            params=self.params,
            prompt=RecordedPrompt(sha256=hash_ids(self._prompt), token_ids=ids, tail=self._tail),
            chunks=[
                RecordedChunk(self._at_ms(at), keep_finite(chunk))
                for at, chunk in self._all_chunks()
            ],
            sent=[RecordedDeltas(self._at_ms(at), deltas) for at, deltas in self.sent],
            outcome=self.outcome,
            error=self.error,
            resumed=len(self._resumed),
            dropped=self.dropped,
        )

    def build_redacted(self, redactor: Redactor) -> Recording:
        """Return the recording without words.

        It keeps the prompt's hash and redacted tail. Raises what a tokenizer raises.
        """
        of_request = redactor.for_request(self.params, self.model.parsers)
        whole = self.build(with_prompt=False)
        tail = [new for ids in of_request.redact([self._tail]) for new in ids]
        return msgspec.structs.replace(
            whole,
            params=redact_params(self.params),
            prompt=msgspec.structs.replace(whole.prompt, tail=tail),
            chunks=redact_chunks(whole.chunks, of_request),
            sent=[
                RecordedDeltas(
                    sent.at_ms,
                    [of_request.redact_delta(delta) for delta in sent.deltas],
                    [measure_texts(delta) for delta in sent.deltas],
                )
                for sent in whole.sent
            ],
            # The text of an error may repeat the request or the answer.
            error=None if self.error is None else self.error.partition(":")[0],
            redacted=True,
        )

    @property
    def _prompt(self) -> Sequence[int]:
        return self.token_ids[: self.params.prompt_length]

    @property
    def _tail(self) -> list[int]:
        return list(self._prompt[-TAIL_TOKENS:])

    @property
    def _resumed(self) -> list[int]:
        return list(self.token_ids[self.params.prompt_length :])

    def _all_chunks(self) -> list[tuple[float, Chunk]]:
        """Return the tokens of a worker that died as the first chunk, then the others."""
        resumed = self._resumed
        first = [(self.since, Chunk(token_ids=resumed))] if resumed else []
        return first + self.chunks

    def _at_ms(self, at: float) -> float:
        return round((at - self.since) * MS_PER_S, _ROUNDED_MS)


def redact_chunks(
    recorded: Sequence[RecordedChunk], redactor: RequestRedactor
) -> list[RecordedChunk]:
    """Redact all chunks; those of a choice together, because words span chunks."""
    by_choice: dict[int, list[list[int]]] = {}
    for item in recorded:
        by_choice.setdefault(item.chunk.index, []).append(item.chunk.token_ids)
    redacted = {index: iter(redactor.redact(ids)) for index, ids in by_choice.items()}
    return [
        RecordedChunk(
            item.at_ms,
            msgspec.structs.replace(
                item.chunk,
                token_ids=next(redacted[item.chunk.index]),
                logprobs=None,
                top_logprobs=None,
            ),
        )
        for item in recorded
    ]


def hash_ids(token_ids: Sequence[int]) -> str:
    """Return the SHA-256 of token ids as little-endian 64-bit numbers, in hexadecimal."""
    numbers = array("Q", token_ids)
    if sys.byteorder == "big":
        numbers.byteswap()
    return hashlib.sha256(numbers.tobytes()).hexdigest()


def measure_texts(delta: ChoiceDelta) -> list[int]:
    """Return the lengths of a delta's texts: reasoning, content, the arguments of each call."""
    part = delta.delta
    texts = [part.reasoning_content, part.content]
    texts += [call.function.arguments for call in part.tool_calls]
    return [len(text) for text in texts if text is not None]


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
