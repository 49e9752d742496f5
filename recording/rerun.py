"""Re-runs a recorded stream through post-processing, with any chunk boundaries."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec

from ..parsers.base import ParserFactory
from ..postprocess.messages import Chunk, PostprocessParams
from ..postprocess.postprocessor import Postprocessor
from ..tokenization.detokenizer import DetokenizerFactory
from .comparison import Difference, Given, find_difference, split_parts
from .kept_text import declared_names
from .recording import DiscardedCall, Recording

RECORDED, WHOLE, RANDOM = "recorded", "all", "random"
# Largest random chunk.
LONGEST_RANDOM = 12

T = TypeVar("T")


class Parts(msgspec.Struct, frozen=True):
    """The detokenizer and parser factories of a rerun.

    kind: of the parsers: "linear", "native", or "none" for no parser.
    """

    detokenizers: DetokenizerFactory
    parsers: ParserFactory
    kind: str = "linear"

    @property
    def name(self) -> str:
        """The parsers' kind and names."""
        return f"{self.kind} {self.parsers.name}"


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
            deltas, resumed = post.resume(chunk.token_ids, chunk.index), 0
        else:
            deltas = post.feed(chunk)
        given.append(Given(post.choices[chunk.index].tokens, deltas))
    return given


class Attempt(msgspec.Struct, frozen=True):
    """A malformed call that was generated again.

    token: number of tokens in front of it. tokens: its own. reason: as recorded. found: by these
        parsers; None if they find nothing wrong.
    """

    token: int
    tokens: int
    reason: str
    found: str | None


def rerun_discarded(recording: Recording, parts: Parts) -> list[Attempt]:
    """Repeat the attempts that were discarded. Raises as `rerun`."""
    return [_rerun_attempt(recording, parts, call) for call in recording.discarded]


def _rerun_attempt(recording: Recording, parts: Parts, call: DiscardedCall) -> Attempt:
    post = Postprocessor(
        regenerating(recording.params),
        parts.detokenizers,
        parts.parsers,
        prompt_token_ids=prompt_ids(recording),
    )
    choice = post.choices[0]
    for recorded in recording.chunks[: call.after]:
        post.feed(recorded.chunk)
    tokens = choice.tokens
    for recorded in call.chunks:
        post.feed(recorded.chunk)
    found = choice.faulty
    size = sum(len(recorded.chunk.token_ids) for recorded in call.chunks)
    return Attempt(tokens, size, call.reason, None if found is None else found.fault)


def regenerating(params: PostprocessParams) -> PostprocessParams:
    """Return the parameters with which malformed calls are found, to be generated again."""
    parser = msgspec.structs.replace(params.parser, malformed_calls="regenerate")
    return msgspec.structs.replace(params, parser=parser)


def find_differences(
    recording: Recording, left: list[Given], right: list[Given], *, is_sent: bool
) -> list[Difference]:
    """Return the first difference of each choice.

    is_sent: the left side is what the client got, which has no text in a redacted recording and
        ends early in an incomplete one.
    """
    declared = None
    if is_sent and recording.redacted:
        declared = frozenset(declared_names(recording.params.parser.tools))
    is_cut = is_sent and (recording.outcome != "finished" or recording.dropped > 0)
    found = (
        find_difference(
            split_parts(left, index, declared),
            split_parts(right, index, declared),
            index,
            left_is_cut=is_cut,
        )
        for index in range(recording.params.n)
    )
    return [difference for difference in found if difference is not None]


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
        given += [Given(tokens.get(delta.index, 0), [delta]) for delta in sent.deltas]
    return given


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
    pieces, start = [], 0
    while start < len(joined.token_ids):
        stop = start + length()
        pieces.append(joined.cut(start, stop))
        start = stop
    return pieces if last.token_ids else [*pieces, last]


def _join(chunks: Sequence[Chunk]) -> Chunk:
    """Merge `chunks`, with the finish of the last; the result has logprobs if each of them has."""
    *_, last = chunks or [Chunk()]
    return Chunk(
        index=last.index,
        finish_reason=last.finish_reason,
        stop_reason=last.stop_reason,
        token_ids=[token_id for part in chunks for token_id in part.token_ids],
        logprobs=_concatenate([part.logprobs for part in chunks]),
        top_logprobs=_concatenate([part.top_logprobs for part in chunks]),
    )


def _concatenate(parts: Sequence[Sequence[T] | None]) -> list[T] | None:
    """Return the items of all parts; None without parts, or if one is None."""
    present = [part for part in parts if part is not None]
    whole = bool(parts) and len(present) == len(parts)
    return [item for part in present for item in part] if whole else None
