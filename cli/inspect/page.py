"""Renders an inspection as one self-contained HTML page that shows data only as text.

The page holds the data as JSON in a block that never runs. Its policy allows only our own style
and script, by their hashes. The script adds text only as text nodes.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.metadata
import importlib.resources
import json
from collections.abc import Iterable, Iterator, Sequence
from functools import cache

from ...base.json_types import JsonObject
from ...parsers.events import (
    Content,
    Event,
    Reasoning,
    ToolCallArguments,
    ToolCallMalformed,
    ToolCallStarted,
)
from ...parsers.held_back import EXPLANATIONS
from ...postprocess.messages import ChoiceDelta
from ...recording.comparison import split_delta
from .inspection import InspectedChoice, Inspection, SentDeltas
from .trace import ChoiceTrace, Step

# In the order in which the page loads them.
SCRIPTS = ("model.js", "text.js", "search.js", "strip.js", "rows.js", "details.js", "page.js")
# Limit for a held-back text on the page.
MAX_HELD_SHOWN = 60
# Kinds of parts, which the page knows by number.
KINDS = ("reasoning", "content", "call", "arguments", "finish", "cut", "malformed")
REASONING, CONTENT, CALL, ARGUMENTS, FINISH, CUT, MALFORMED = range(len(KINDS))
STOPS = ("none", "searched", "reasoning", "min_tokens", "matched")
NO_CALL = -1

Part = tuple[int, int, str]
"""Kind, number of the call or `NO_CALL`, and text: a call's name, a finish's reason."""


class _Strings:
    """A table of unique strings: most deltas are the text of a token."""

    def __init__(self) -> None:
        self.places: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        return self.places.setdefault(text, len(self.places))


@cache
def _asset(name: str) -> str:
    return importlib.resources.files(__package__).joinpath("assets", name).read_text("utf-8")


def render_page(inspection: Inspection) -> str:
    """Return the page."""
    return fill("page", SCRIPTS, data=write_json(page_data(inspection)))


def fill(name: str, scripts: Sequence[str], **parts: str) -> str:
    """Return the page of this name with its style, its scripts and these parts, as HTML."""
    style = parts["style"] = _asset(f"{name}.css")
    script = parts["script"] = "".join(map(_asset, scripts))
    parts["policy"] = (
        f"default-src 'none'; style-src '{hash_source(style)}'; "
        f"script-src '{hash_source(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    # Fill each placeholder once, and do not search what was filled in.
    head, *rest = _asset(f"{name}.html").split("{{")
    return head + "".join(
        parts[name] + tail for name, _, tail in (piece.partition("}}") for piece in rest)
    )


def hash_source(text: str) -> str:
    """Return the hash by which a policy identifies a style or a script."""
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


def write_json(data: object) -> str:
    """Return ASCII JSON that cannot end a script block."""
    text = json.dumps(data, ensure_ascii=True, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def page_data(inspection: Inspection) -> JsonObject:
    """Return the data for the page's script: columns instead of rows, and unique strings."""
    strings = _Strings()
    row = inspection.request
    choices = [_choice(choice, strings) for choice in inspection.choices]
    return {
        "version": importlib.metadata.version("backedge"),
        "id": row.id,
        "number": row.number,
        "model": row.model,
        "source": inspection.source,
        "engine": inspection.engine,
        "began": inspection.began,
        "outcome": row.outcome,
        "error": inspection.error or "",
        "note": inspection.note,
        "redacted": row.redacted,
        "turns": inspection.turns,
        "resumed": inspection.resumed,
        "dropped": inspection.dropped,
        "discarded": inspection.discarded,
        "promptTokens": row.prompt_tokens,
        "asked": inspection.asked,
        "stop": inspection.stop,
        "why": list(EXPLANATIONS),
        "explanations": list(EXPLANATIONS.values()),
        "choices": choices,
        "strings": list(strings.places),
    }


def _choice(choice: InspectedChoice, strings: _Strings) -> JsonObject:
    steps = choice.sides[0].steps
    starts = [
        number
        for number, step in enumerate(steps)
        if number == 0 or step.chunk != steps[number - 1].chunk
    ]
    timing = choice.timing
    return {
        "index": choice.index,
        "ids": [-1 if step.token_id is None else step.token_id for step in steps],
        "texts": [strings(step.text) for step in steps],
        "discarded": _discarded(steps, strings),
        "chunkStarts": starts,
        "chunkTimes": [round(steps[start].at_ms, 3) for start in starts],
        "sent": [_sent(group, strings) for group in choice.sent],
        "timing": {name: getattr(timing, name) for name in timing.__struct_fields__},
        "sides": [_side(side, strings) for side in choice.sides],
        "difference": None
        if choice.difference is None
        else [choice.difference.step, choice.difference.left, choice.difference.right],
        "agrees": choice.agrees,
        "leftOut": choice.sides[0].left_out,
    }


def _discarded(steps: Sequence[Step], strings: _Strings) -> list[int]:
    return _runs(strings(step.discarded) for step in steps)


def _side(side: ChoiceTrace, strings: _Strings) -> JsonObject:
    steps = side.steps
    columns = _step_columns(steps, strings)
    ignored = (number for number, step in enumerate(steps) if step.ignored)
    whole = side.whole
    return {
        "parsers": side.parsers,
        "kind": side.kind,
        "states": _runs(strings(step.state) for step in steps),
        "stops": _runs(STOPS.index(step.stop) for step in steps),
        **columns,
        "ignoredFrom": next(ignored, len(steps)),
        "failures": side.failures,
        "whole": [] if whole is None else [list(part) for part in delta_parts(whole)],
    }


def _step_columns(steps: Iterable[Step], strings: _Strings) -> dict[str, list[int]]:
    """Return the held-back texts, deltas and events of the steps, each as one flat list."""
    held: list[int] = []
    deltas: list[int] = []
    events: list[int] = []
    why = {name: place for place, name in enumerate(EXPLANATIONS)}
    for number, step in enumerate(steps):
        made = [part for delta in step.deltas for part in delta_parts(delta)]
        deltas += _flatten(number, made, strings)
        read = [event_part(event) for event in step.events]
        if read != [part for part in made if part[0] != FINISH]:
            events += _flatten(number, read, strings)
        for text in step.held:
            shown = strings(text.text[-MAX_HELD_SHOWN:])
            held += number, why[text.why], text.length, shown
    return {"held": held, "deltas": deltas, "events": events}


def _sent(group: SentDeltas, strings: _Strings) -> list[object]:
    parts = [
        [kind, call, strings(text)]
        for delta in group.deltas
        for kind, call, text in delta_parts(delta)
    ]
    return [group.steps, round(group.at_ms, 3), parts]


def _flatten(number: int, parts: Iterable[Part], strings: _Strings) -> Iterator[int]:
    for kind, call, text in parts:
        yield from (number, kind, call, strings(text))


def _runs(values: Iterable[int]) -> list[int]:
    """Return the runs of equal values: start and value of each."""
    runs: list[int] = []
    for number, value in enumerate(values):
        if not runs or runs[-1] != value:
            runs += number, value
    return runs


def delta_parts(delta: ChoiceDelta) -> list[Part]:
    """Return the parts of a delta."""
    return [
        (KINDS.index(kind), NO_CALL if index is None else index, text)
        for kind, index, text in split_delta(delta, " by {!r}")
    ]


def event_part(event: Event) -> Part:
    """Convert a parser's event to a part."""
    match event:
        case Reasoning(text):
            return REASONING, NO_CALL, text
        case Content(text):
            return CONTENT, NO_CALL, text
        case ToolCallStarted(index, name):
            return CALL, index, name
        case ToolCallArguments(index, text):
            return ARGUMENTS, index, text
        case ToolCallMalformed(index, kind):
            return MALFORMED, index, kind
        case _:
            return CUT, NO_CALL if event.index is None else event.index, event.text
