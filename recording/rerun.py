"""A recorded stream once more through post-processing, cut into chunks as one likes."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import msgspec

from ..parsers.base import ParserFactory
from ..postprocess.messages import ChoiceDelta, Chunk
from ..postprocess.migration import resume
from ..postprocess.postprocessor import Postprocessor
from ..tokenization.detokenizer import DetokenizerFactory
from .comparison import Given
from .recording import RecordedDeltas, Recording

RECORDED, WHOLE, RANDOM = "recorded", "all", "random"
# Of a random chunk, at most.
LONGEST_RANDOM = 12


class Parts(msgspec.Struct, frozen=True):
    """What a stream is post-processed with."""

    detokenizers: DetokenizerFactory
    parsers: ParserFactory


def rerun(recording: Recording, parts: Parts, chunks: Sequence[Chunk]) -> list[Given]:
    """Return what post-processing makes of `chunks`, as `cut` gives them.

    Tokens that another worker had generated bring it up to date and give nothing, as then.
    Raises what a parser raises that cannot be built; one that raises later gives raw text.
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
    """Return the prompt's tokens, or as many of its last ones as are recorded."""
    prompt = recording.prompt
    return prompt.tail if prompt.token_ids is None else prompt.token_ids


def read_sent(recording: Recording) -> list[Given]:
    """Return the deltas that were sent, each behind the tokens that had come by then."""
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
    """Return the deltas; those that have lost their text have as many dots."""
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
    """Return the recorded chunks in other pieces, choice by choice.

    how: "recorded" for the chunks as they came, "all" for one each, "random", or a number of
        tokens. seed: of the random ones.
    The tokens of a worker that died stay the first chunk. A finish that came with a token stays
    with it: that token ended the generation, and has no text.
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
    """Return the chunks of a choice in pieces, up to its finish."""
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
    """Return the tokens of `chunks` with their logprobs, if all have some."""
    index = chunks[0].index if chunks else 0
    has_logprobs = bool(chunks) and all(part.logprobs is not None for part in chunks)
    has_tops = bool(chunks) and all(part.top_logprobs is not None for part in chunks)
    return Chunk(
        index=index,
        token_ids=[token_id for part in chunks for token_id in part.token_ids],
        logprobs=[one for part in chunks for one in part.logprobs or ()] if has_logprobs else None,
        top_logprobs=[one for part in chunks for one in part.top_logprobs or ()]
        if has_tops
        else None,
    )


def _slice(chunk: Chunk, start: int, stop: int) -> Chunk:
    logprobs, tops = chunk.logprobs, chunk.top_logprobs
    return Chunk(
        index=chunk.index,
        token_ids=chunk.token_ids[start:stop],
        logprobs=None if logprobs is None else logprobs[start:stop],
        top_logprobs=None if tops is None else tops[start:stop],
    )
