"""Lets a model reason before a constrained answer, with one grammar for both.

So engines need not know where reasoning ends, and all give the same answer.
"""

from __future__ import annotations

from typing import NamedTuple

from ..base.errors import RequestError
from ..base.json_types import JsonObject
from ..parsers.format import Format, State

# Text that models write between reasoning and answer.
_GAP: JsonObject = {"type": "regex", "pattern": "\\n{0,2}"}


class ReasoningTags(NamedTuple):
    """The markers around reasoning: text follows each of `begins`, then one of `ends`.

    decided: whether a model reasons is known before its first token.
    """

    begins: tuple[str, ...]
    ends: tuple[str, ...]
    decided: bool


def read_reasoning_tags(format_: Format) -> ReasoningTags | None:
    """Return the markers of a format; None if its reasoning has headers or is not text."""
    states = format_.states
    begins = [*_lead_to(format_, State.START, State.REASONING)]
    begins += [
        opening + begin
        for opening in _lead_to(format_, State.START, State.REASONING_OPENED)
        for begin in _lead_to(format_, State.REASONING_OPENED, State.REASONING)
    ]
    ends = _lead_to(format_, State.REASONING, State.START, State.CONTENT)
    if State.REASONING not in states or not begins or not ends:
        return None
    return ReasoningTags(tuple(begins), tuple(ends), format_.thinks_by_default)


def _lead_to(format_: Format, source: State, *targets: State) -> list[str]:
    """Return the markers of a state that lead to others and precede no reused text."""
    markers = format_.states.get(source, {})
    return [marker for marker, target in markers.items() if target in targets]


def after_reasoning(
    guided_decoding: JsonObject, tags: ReasoningTags, *, opened: bool
) -> JsonObject:
    """Return `guided_decoding` for reasoning followed by a constrained answer.

    opened: whether the model reasons from its first token. If not, it may begin to reason or
        to answer, unless that is decided before.
    Raises `RequestError` for a constraint that a structural tag cannot express.
    """
    answer = to_tag_format(guided_decoding)
    is_free = answer.get("type") == "triggered_tags"  # allows text before its tags
    if is_free or (tags.decided and not opened):
        return guided_decoding
    begins = ("",) if opened else tags.begins
    reasoned = [
        {"type": "tag", "begin": begin, "content": {"type": "any_text"}, "end": list(tags.ends)}
        for begin in begins
    ]
    either = reasoned[0] if len(reasoned) == 1 else {"type": "or", "elements": reasoned}
    before: JsonObject = {"type": "sequence", "elements": [either, _GAP]}
    if not opened:
        before = {"type": "optional", "content": before}
    whole = {"type": "sequence", "elements": [before, answer]}
    return {"structural_tag": {"type": "structural_tag", "format": whole}}


def to_tag_format(guided_decoding: JsonObject) -> JsonObject:
    """Return any constraint as the `format` of a structural tag.

    guided_decoding: in Dynamo's form, with one constraint.
    Raises `RequestError` for a structural tag of an unknown form.
    """
    [(kind, value)] = guided_decoding.items()
    match kind:
        case "json":
            return {"type": "json_schema", "json_schema": value}
        case "regex":
            return {"type": "regex", "pattern": value}
        case "grammar":
            return {"type": "grammar", "grammar": value}
        case "choice":
            texts = [{"type": "const_string", "value": text} for text in value]
            return {"type": "or", "elements": texts}
        case _:
            return _read_tag(value)


def _read_tag(tag: JsonObject) -> JsonObject:
    """Return the format of a structural tag, including the older form with `structures`."""
    if isinstance(tag.get("format"), dict):
        found: JsonObject = tag["format"]
        return found
    structures, triggers = tag.get("structures"), tag.get("triggers")
    try:
        tags = [
            {
                "type": "tag",
                "begin": part["begin"],
                "content": {"type": "json_schema", "json_schema": part.get("schema") or {}},
                "end": part["end"],
            }
            for part in structures or []
        ]
    except (TypeError, KeyError, AttributeError):
        tags = []
    if not tags or not isinstance(triggers, list):
        allowed = "a structural tag, with `format`, or with `structures` and `triggers`"
        raise RequestError.wrong("response_format", tag, allowed)
    return {"type": "triggered_tags", "triggers": triggers, "tags": tags}
