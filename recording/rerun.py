"""Re-runs a recorded stream through post-processing, with any chunk boundaries."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec

from ..parsers.base import ParserFactory
from ..postprocess.messages import ChoiceDelta, Chunk
from ..postprocess.migration import resume
from ..postprocess.postprocessor import Postprocessor
from ..tokenization.detokenizer import DetokenizerFactory
from .comparison import Given
from .recording import RecordedDeltas, Recording

RECORDED, WHOLE, RANDOM = "recorded", "all", "random"
# Largest random chunk.
LONGEST_RANDOM = 12

T = TypeVar("T")


class Parts(msgspec.Struct, frozen=True):
    """The detokenizer and parser factories of a rerun."""

    detokenizers: DetokenizerFactory
    parsers: ParserFactory


def rerun(recording: Recording, parts: Parts, chunks: Sequence[Chunk]) -> list[Given]:
    """Return the deltas that post-processing gives for `chunks`, as returned by `cut`.

    Tokens of a worker that died only bring the state up to date, as they did originally.
    Raises what the constructor of a parser raises; a parser that raises later gives raw text.
    """
    post = Postprocessor(
        recording.params,
        parts.detokenizers,
        parts.parsers,
        prompt_token_ids=prompt_ids(recording),
    )
    given = []
    resumed = recording.resumed
    for chunk in chunks:
        if resumed:
            deltas, resumed = resume(post, chunk.token_ids, chunk.index), 0
        else:
            deltas = post.feed(chunk)
        given.append(Given(post.choices[chunk.index].tokens, deltas))
    return given


def prompt_ids(recording: Recording) -> list[int]:
    """Return the prompt's tokens, or the last ones if only these are recorded."""
    prompt = recording.prompt
    return prompt.tail if prompt.token_ids is None else prompt.token_ids


def read_sent(recording: Recording) -> list[Given]:
    """Return the deltas that were sent, each with the token count at that time."""
    given: list[Given] = []
    tokens: dict[int, int] = {}
    position, chunks = 0, recording.chunks
    for sent in recording.sent:
        while position < len(chunks) and chunks[position].at_ms <= sent.at_ms:
            chunk = chunks[position].chunk
            tokens[chunk.index] = tokens.get(chunk.index, 0) + len(chunk.token_ids)
            position += 1
        given += [Given(tokens.get(delta.index, 0), [delta]) for delta in restore_kinds(sent)]
    return given


def restore_kinds(sent: RecordedDeltas) -> Sequence[ChoiceDelta]:
    """Return the deltas; one that has lost its text gets as many dots."""
    if not sent.sizes:
        return sent.deltas
    return [_fill(delta, "." * size) for delta, size in zip(sent.deltas, sent.sizes, strict=False)]


def _fill(delta: ChoiceDelta, text: str) -> ChoiceDelta:
    part = delta.delta
    if not text:
        return delta
    if part.tool_calls:
        *calls, last = part.tool_calls
        function = msgspec.structs.replace(last.function, arguments=text)
        calls.append(msgspec.structs.replace(last, function=function))
        part = msgspec.structs.replace(part, tool_calls=calls)
    elif part.content is not None:
        part = msgspec.structs.replace(part, content=text)
    elif part.reasoning_content is not None:
        part = msgspec.structs.replace(part, reasoning_content=text)
    return msgspec.structs.replace(delta, delta=part)


def cut(recording: Recording, how: str, seed: int = 0) -> list[Chunk]:
    """Cut the recorded chunks differently, choice by choice.

    how: "recorded" for the recorded chunks, "all" for one chunk per choice, "random", or a
        number of tokens per chunk. seed: for "random".
    The tokens of a worker that died stay the first chunk. A finish stays with its token: that
    token ended generation and has no text.
    """
    chunks = [item.chunk for item in recording.chunks]
    if how == RECORDED:
        return chunks
    first = chunks[:1] if recording.resumed else []
    by_choice: dict[int, list[Chunk]] = {}
    for chunk in chunks[len(first) :]:
        by_choice.setdefault(chunk.index, []).append(chunk)
    length = _choose_length(how, seed)
    return first + [new for parts in by_choice.values() for new in _recut(parts, length)]


def _choose_length(how: str, seed: int) -> Callable[[], int]:
    if how == WHOLE:
        return lambda: 1 << 62
    if how == RANDOM:
        draw = random.Random(seed)
        return lambda: draw.randint(1, LONGEST_RANDOM)
    return lambda: int(how)


def _recut(chunks: Sequence[Chunk], length: Callable[[], int]) -> list[Chunk]:
    """Recut the chunks of a choice up to its finish."""
    end = next((number for number, part in enumerate(chunks) if part.finish_reason), None)
    *body, last = chunks if end is None else chunks[: end + 1]
    joined = _join([*body, last] if last.token_ids else body)
    total = len(joined.token_ids)
    pieces, start = [], 0
    while start < total:
        stop = min(total, start + length())
        pieces.append(_slice(joined, start, stop))
        start = stop
    if last.token_ids and pieces:
        pieces[-1] = msgspec.structs.replace(
            pieces[-1], finish_reason=last.finish_reason, stop_reason=last.stop_reason
        )
        return pieces
    return [*pieces, last]


def _join(chunks: Sequence[Chunk]) -> Chunk:
    """Merge `chunks`; the result has logprobs if each of them has."""
    return Chunk(
        index=chunks[0].index if chunks else 0,
        token_ids=[token_id for part in chunks for token_id in part.token_ids],
        logprobs=_concatenate([part.logprobs for part in chunks]),
        top_logprobs=_concatenate([part.top_logprobs for part in chunks]),
    )


def _concatenate(parts: Sequence[Sequence[T] | None]) -> list[T] | None:
    """Return the items of all parts; None without parts, or if one is None."""
    present = [part for part in parts if part is not None]
    whole = bool(parts) and len(present) == len(parts)
    return [item for part in present for item in part] if whole else None


def _slice(chunk: Chunk, start: int, stop: int) -> Chunk:
    logprobs, tops = chunk.logprobs, chunk.top_logprobs
    return Chunk(
        index=chunk.index,
        token_ids=chunk.token_ids[start:stop],
        logprobs=None if logprobs is None else logprobs[start:stop],
        top_logprobs=None if tops is None else tops[start:stop],
    )
