"""The data shown of a request: its tokens with one or two pairs of parsers, and its times."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence

import msgspec

from ...base.terminal import format_json
from ...postprocess.messages import ChoiceDelta, PostprocessParams
from ...recording.comparison import NOTHING, Given, Side, find_difference, split_parts
from ...recording.parser_case import read_expected
from ...recording.recording import Recording
from ...recording.rerun import Parts
from ...tokenization.detokenizer import DetokenizerOptions
from .summary import Chosen, RequestRow, Timing, measure
from .trace import ChoiceTrace, trace, trace_ids

# Limit for an output's text in a difference.
MAX_SHOWN = 120
# Limit for the tokens of a prompt that are shown.
MAX_PROMPT = 20_000


class Difference(msgspec.Struct, frozen=True):
    """The point at which two sides diverge, as found by `recording/comparison.py`.

    step: number of the token at which the later side gave it. left, right: description of each
        side's output there.
    """

    step: int
    left: str
    right: str


class SentDeltas(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Deltas of one choice that were sent together.

    at_ms: since the request arrived. steps: number of tokens at that time.
    """

    at_ms: float
    steps: int
    deltas: list[ChoiceDelta]


class InspectedChoice(msgspec.Struct, omit_defaults=True, kw_only=True):
    """One choice.

    sides: the recorded parsers, and those of --beside. difference: between the two.
    agrees: whether the first side reproduces the recorded deltas; None if that is unknown,
        because they are redacted or incomplete, or the tokenizer is missing.
    """

    index: int
    timing: Timing
    sent: list[SentDeltas]
    sides: list[ChoiceTrace]
    difference: Difference | None = None
    agrees: bool | None = None


class Inspection(msgspec.Struct, omit_defaults=True, kw_only=True):
    """One request.

    note: why some data is missing; otherwise "". turns: what the frontend has restored of earlier
        answers; otherwise "". discarded: tokens of calls that were generated again.
    asked: the parts of the request that were recorded, as names and texts.
    """

    request: RequestRow
    source: str
    engine: str
    began: float
    stop: list[str]
    asked: list[tuple[str, str]]
    note: str = ""
    error: str | None = None
    turns: str = ""
    resumed: int = 0
    dropped: int = 0
    discarded: int = 0
    choices: list[InspectedChoice]


def describe_turns(params: PostprocessParams) -> str:
    """Describe what `--keep-turns` has put back into the prompt; "" if there is nothing."""
    counts = ("reasoning", params.restored_turns), ("token ids", params.exact_turns)
    parts = [f"{name} of {count}" for name, count in counts if count]
    return f"restored of earlier answers: {', '.join(parts)}" if parts else ""


def describe_request(recording: Recording, parts: Sequence[Parts]) -> Iterator[tuple[str, str]]:
    """Yield the prompt's text, the tools and the other parameters, where they were recorded."""
    if parts and (ids := recording.prompt.token_ids):
        options = DetokenizerOptions(skip_special_tokens=False)
        text = parts[0].detokenizers(options, ()).feed_all(ids[:MAX_PROMPT])
        yield "prompt", text if len(ids) <= MAX_PROMPT else f"{text}\u2026"
    params = recording.params
    if params.parser.tools:
        yield "tools", format_json(params.parser.tools, indent=2)
    yield "parameters", format_json(params, indent=2)


def inspect_recording(chosen: Chosen, parts: Sequence[Parts], note: str = "") -> Inspection:
    """Collect the data shown of a request.

    parts: the recorded parsers, then those of --beside, if any; empty without a tokenizer.
    Raises `TraceError` as `trace`.
    """
    recording = chosen.recording
    traces = [trace(recording, of_side) for of_side in parts] or [trace_ids(recording)]
    return Inspection(
        request=chosen.row,
        source=recording.source,
        engine=" ".join(filter(None, (recording.model.engine, recording.model.engine_version))),
        began=recording.began,
        stop=recording.params.stop,
        asked=list(describe_request(recording, parts)),
        note=note,
        error=recording.error,
        turns=describe_turns(recording.params),
        resumed=recording.resumed,
        dropped=recording.dropped,
        discarded=sum(
            len(each.chunk.token_ids) for call in recording.discarded for each in call.chunks
        ),
        choices=[_inspect_choice(recording, sides) for sides in zip(*traces, strict=True)],
    )


def _inspect_choice(recording: Recording, sides: Sequence[ChoiceTrace]) -> InspectedChoice:
    first, *beside = sides
    sent = _sent(recording, first)
    return InspectedChoice(
        index=first.index,
        timing=measure(recording, first.index),
        sent=sent,
        sides=list(sides),
        difference=compare(first, beside[0]) if beside else None,
        agrees=_agrees(recording, first, sent),
    )


def compare(left: ChoiceTrace, right: ChoiceTrace) -> Difference | None:
    """Return the first difference of two traces of the same tokens; None if they are equal."""
    ours, theirs = (
        split_parts(
            [Given(tokens, step.deltas) for tokens, step in enumerate(side.steps, 1)], side.index
        )
        for side in (left, right)
    )
    found = find_difference(ours, theirs, left.index)
    if found is None:
        return None
    return Difference(found.token - 1, _describe(found.left), _describe(found.right))


def _describe(output: Side) -> str:
    """Describe one side's output, shortened."""
    text = output.text
    shown = text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN - 1]}\u2026"
    if not shown:
        return f"{output.kind} more" if output == NOTHING else f"no more {output.kind}"
    return f'{output.kind.removeprefix("call of ")} "{shown}"'  # a name and its call are one


def _sent(recording: Recording, choice: ChoiceTrace) -> list[SentDeltas]:
    """Return the deltas that were sent for a choice."""
    times = [step.at_ms for step in choice.steps]
    found = []
    for group in recording.sent:
        deltas = [delta for delta in group.deltas if delta.index == choice.index]
        if deltas:
            steps = bisect_right(times, group.at_ms)
            found.append(SentDeltas(at_ms=group.at_ms, steps=steps, deltas=deltas))
    return found


def _agrees(recording: Recording, choice: ChoiceTrace, sent: Sequence[SentDeltas]) -> bool | None:
    """Whether the deltas that were sent add up to what the stages give now."""
    whole = choice.whole
    deltas = [delta for group in sent for delta in group.deltas]
    incomplete = recording.redacted or recording.dropped or recording.outcome != "finished"
    if whole is None or not deltas or incomplete or choice.left_out:
        return None
    return read_expected(deltas) == read_expected([whole])
