"""Renders an inspection as text for a terminal: a line for each token and its effect.

The model's output cannot act as terminal commands, because it is made visible first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest

from ...base.hidden_characters import escape_hidden
from ...base.terminal import Line, Styled
from ...parsers.events import ToolCallMalformed
from ...postprocess.messages import ChoiceDelta
from .inspection import InspectedChoice, Inspection, SentDeltas
from .page import CALL, FINISH, KINDS, MALFORMED, delta_parts
from .summary import Timing
from .trace import Step

COLOURS: Mapping[str, str] = {
    "reasoning": "yellow",
    "content": "green",
    "call": "magenta",
    "arguments": "cyan",
    "finish": "blue",
}
# Widths of the columns, in characters; longer text shifts the rest of the line.
TOKEN, STATE, OUTPUT = 18, 16, 44
# Limits for text in a line, and for held-back text, of which the end is shown.
MAX_TEXT, MAX_HELD = 160, 24


def render_text(inspection: Inspection) -> Iterator[Line]:
    """Yield the lines."""
    row = inspection.request
    yield Styled(f"request {row.id}", bold=True)
    yield f"  model {row.model}, recorded by a {inspection.source}" + (
        f" of {inspection.engine}" if inspection.engine else ""
    )
    yield f"  {row.outcome}, {row.prompt_tokens} prompt tokens, {row.tokens} output tokens" + (
        ", redacted: words are replaced" if row.redacted else ""
    )
    if inspection.stop:
        yield f"  stop strings: {', '.join(map(_quote, inspection.stop))}"
    for note in (inspection.error, inspection.note):
        if note:
            yield Styled(f"  {note}", "red")
    if inspection.turns:
        yield f"  {inspection.turns}"
    if inspection.resumed:
        yield f"  another worker generated the first {inspection.resumed} tokens"
    if inspection.discarded:
        yield f"  {inspection.discarded} tokens were discarded: their call was generated again"
    if inspection.dropped:
        yield f"  {inspection.dropped} further tokens were not recorded"
    for choice in inspection.choices:
        yield ""
        yield from _choice(choice)


def _choice(choice: InspectedChoice) -> Iterator[Line]:
    yield Styled(f"choice {choice.index}", bold=True)
    yield f"  {_times(choice.timing)}"
    for name, side in zip(("parsers", "beside"), choice.sides, strict=False):
        yield f"  {name} {side.parsers}" + (f" ({side.kind})" if side.kind else "")
        for failure in side.failures:
            yield Styled(f"  {failure}", "red")
    yield from _verdict(choice)
    yield ""
    states = "  ".join("state".ljust(STATE) + "  " + "gives".ljust(OUTPUT) for _ in choice.sides)
    yield Styled(f"{'#':>6}  {'ms':>9}  {'id':>7}  {'token':{TOKEN}}  {states}".rstrip(), dim=True)
    yield from _steps(choice)
    left_out = choice.sides[0].left_out
    if left_out:
        yield f"{left_out} further tokens are not shown"


def _verdict(choice: InspectedChoice) -> Iterator[Line]:
    if choice.agrees is False:
        yield Styled("  these parsers do not reproduce the deltas that were sent", "red")
    if len(choice.sides) > 1 and choice.difference is None:
        yield "  both give the same"
    elif choice.difference is not None:
        yield Styled(f"  first difference at token {choice.difference.step + 1}", "red")


def _steps(choice: InspectedChoice) -> Iterator[Line]:
    groups = iter(choice.sent)
    group = next(groups, None)
    chunk = None
    sides = [side.steps for side in choice.sides]
    for number, steps in enumerate(zip(*sides, strict=True)):
        while group is not None and group.steps <= number:
            yield _sent(group)
            group = next(groups, None)
        new_chunk = steps[0].chunk != chunk
        chunk = steps[0].chunk
        yield from _step(number, steps, new_chunk=new_chunk)
        if choice.difference is not None and choice.difference.step == number:
            yield Styled(f"  first difference: {_shorten(choice.difference.left)}", "red")
            yield Styled(f"            beside: {_shorten(choice.difference.right)}", "red")
    while group is not None:
        yield _sent(group)
        group = next(groups, None)


def _step(number: int, steps: Sequence[Step], *, new_chunk: bool) -> Iterator[Line]:
    """Yield the line of a token; more lines if it gives or holds several things."""
    first = steps[0]
    time = f"{first.at_ms:.2f}" if new_chunk else ""
    token_id = "end" if first.token_id is None else str(first.token_id)
    text = escape_hidden(first.text)
    head = f"{number + 1:>6}  {time:>9}  {token_id:>7}  "
    gap = " " * (TOKEN - len(text))
    lines = [_outputs(step) for step in steps]
    for place, outputs in enumerate(zip_longest(*lines)):
        shown = Styled(text, struck=True) if first.discarded else text
        line: list[str | Styled] = [head, shown, gap]
        if place:
            line = [" " * len(head + text + gap)]
        space = ""
        for step, output in zip(steps, outputs, strict=True):
            ended = "after the end" if step.ignored else step.state
            state = "discarded" if step.discarded else ended
            colour, text = output or (None, "")
            text = _shorten(text)
            line += [f"{space}  {state if place == 0 else '':{STATE}}  ", Styled(text, colour)]
            space = " " * (OUTPUT - len(text))
        yield line


def _outputs(step: Step) -> list[tuple[str | None, str]]:
    """Return colour and text of each thing that a token gives or holds; at least one."""
    found: list[tuple[str | None, str]] = [
        ("red", f"{KINDS[MALFORMED]} {event.index} {event.kind}")
        for event in step.events
        if isinstance(event, ToolCallMalformed)
    ]
    if step.discarded:
        return [("red", step.discarded)]
    found += [part for delta in step.deltas for part in _parts(delta)]
    if step.stop == "matched":
        found.append(("red", "stop string"))
    found += [
        ("bright_black", f"holds {held.length}, {held.why}: {_quote(_end(held.text))}")
        for held in step.held
    ]
    return found or [(None, "")]


def _parts(delta: ChoiceDelta) -> Iterator[tuple[str, str]]:
    for kind, call, text in delta_parts(delta):
        name = KINDS[kind]
        shown = escape_hidden(text) if kind in {CALL, FINISH} else _quote(text)
        number = f" {call}" if kind == CALL else ""
        yield COLOURS[name], f"{name}{number} {shown}"


def _sent(group: SentDeltas) -> Line:
    texts = [
        f"{KINDS[kind]} {escape_hidden(text)}"
        if kind in {CALL, FINISH}
        else f"{KINDS[kind]} of {len(text)} character{'s' * (len(text) != 1)}"
        for delta in group.deltas
        for kind, _, text in delta_parts(delta)
    ]
    what = ", ".join(texts) or "only a role"
    return Styled(f"        {group.at_ms:>9.2f}  sent: {what}", dim=True)


def _times(timing: Timing) -> str:
    parts = [f"{timing.tokens} tokens in {timing.chunks} chunks"]
    for name, value in (
        ("first token after", timing.first_token_ms),
        ("first delta after", timing.first_delta_ms),
        ("median gap", timing.median_gap_ms),
        ("longest gap", timing.longest_gap_ms),
    ):
        if value is not None:
            parts.append(f"{name} {value:.1f} ms")
    if timing.tokens_per_s is not None:
        parts.append(f"{timing.tokens_per_s:.0f} tokens/s")
    return ", ".join(parts)


def _quote(text: str) -> str:
    return f'"{escape_hidden(text)}"'


def _end(text: str) -> str:
    return text if len(text) <= MAX_HELD else f"\u2026{text[1 - MAX_HELD :]}"


def _shorten(text: str) -> str:
    text = escape_hidden(text)
    return text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 1]}\u2026"
