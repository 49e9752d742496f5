"""Parts that many formats share: reasoning between tags, parameters with keys, whole variants.

A fragment is a mapping like `Format.states`. Spread it into a format's own states, or use
`merge_states` if both have markers for the same state.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TypeAlias, TypedDict, Unpack

from ..format import Format, Jump, Spelling, State, States, Target

Markers: TypeAlias = str | tuple[str, ...]
"""One marker, or several with the same meaning."""
JSON_CALL = '{"name": "{name}", "arguments": {arguments}}'
"""How most chat templates write a call object, for `Spelling`."""


def call_array(begin: str, end: str) -> Spelling:
    """Return the spelling of an array of call objects between two texts."""
    return Spelling(JSON_CALL, around=(begin + "[", "]" + end), between=", ")


def think(
    start: Markers = "<think>", end: Markers = "</think>", *, extra_end: bool = False
) -> States:
    """Return the states of reasoning that `start` and `end` enclose.

    extra_end: drop `end` before the answer, because the model repeats it or writes it when
        the prompt has already closed the reasoning.
    """
    ends = _lead(end, State.START)
    return {
        State.START: {**_lead(start, State.REASONING), **(ends if extra_end else {})},
        State.REASONING: ends,
    }


def json_calls(start: Markers, end: Markers) -> States:
    """Return the states of call objects, or an array of them, that `start` and `end` enclose."""
    return {
        State.CONTENT: _lead(start, State.JSON_CALLS),
        State.JSON_CALLS: _lead(end, Jump.RETURN),
    }


def keyed_values(
    key: Markers,
    value: Markers,
    end: Markers,
    *,
    then: Mapping[str, Target],
    key_end: str | None = None,
) -> States:
    """Return the states of a call's parameters, each with a key and a value.

    key, value, end: the markers before the key, before the value and after it.
    then: the markers that end the parameters.
    key_end: the marker after a key; None if `value` ends it.
    """
    keys, values = _lead(key, State.KEY), _lead(value, State.VALUE)
    ends = _lead(end, State.PARAMETERS)
    if key_end is None:
        inside: States = {
            State.PARAMETERS: {**ends, **keys, **then},
            # The end of a tag is missing.
            State.KEY: {**keys, **ends, **values},
        }
    else:
        inside = {
            State.PARAMETERS: {**ends, key_end: State.PARAMETERS, **values, **keys, **then},
            State.KEY: {**keys, **values, key_end: State.PARAMETERS},
        }
    return {**inside, State.VALUE: ends}


def invoke(prefix: str = "", quotes: Iterable[str] = ('"',)) -> dict[str, Target]:
    """Return the markers that begin a call like `<invoke name="f">`; see `invocation`."""
    return {f"<{prefix}invoke name={quote}": State.NAME for quote in quotes}


def invocation(
    prefix: str = "", quotes: Iterable[str] = ('"',), *, then: Mapping[str, Target]
) -> States:
    """Return the states of `<invoke name="f"><parameter name="p">value</parameter></invoke>`.

    prefix: precedes each tag's name. quotes: around names, "" for none.
    then: the markers besides `</invoke>` that end the call.
    """
    quotes = tuple(quotes)
    ends = tuple(f"{quote}>" for quote in quotes)
    keys = tuple(f"<{prefix}parameter name={quote}" for quote in quotes)
    return {
        State.NAME: _lead(ends, State.PARAMETERS),
        **keyed_values(
            keys,
            ends,
            f"</{prefix}parameter>",
            then={
                f"</{prefix}invoke>": State.TOOL_SECTION,
                **invoke(prefix, quotes),  # in case the end of the call is missing
                **then,
            },
        ),
    }


def spell_invocations(begin: str, end: str, prefix: str = "") -> Spelling:
    """Return the spelling of calls as `invocation` reads them, on lines between two texts."""
    return Spelling(
        f'<{prefix}invoke name="{{name}}">\n{{arguments}}</{prefix}invoke>\n',
        around=(begin, end),
        parameters={
            State.VALUE: f'<{prefix}parameter name="{{key}}">{{value}}</{prefix}parameter>\n'
        },
    )


def merge_states(*parts: States) -> States:
    """Merge the markers of all `parts`; if a marker repeats, the later part wins."""
    merged: dict[State, dict[str, Target]] = {}
    for part in parts:
        for state, targets in part.items():
            merged.setdefault(state, {}).update(targets)
    return merged


class Changes(TypedDict, total=False):
    """The fields of `Format` that a variant may change, besides its markers."""

    quotes: tuple[str, ...]
    strip: str | None
    undeclared_type: str
    breaks_before_calls: int
    thinks_by_default: bool
    thinking_flags: Mapping[str, bool]
    hints: tuple[str, ...]


def variant(
    base: Format,
    name: str,
    *,
    source: str,
    aliases: tuple[str, ...] = (),
    markers: Mapping[str, str] | None = None,
    states: States | None = None,
    spelling: Spelling | None = None,
    **changes: Unpack[Changes],
) -> Format:
    """Return a format that differs from `base` only in strings.

    markers: replacements in the markers of `base`, wherever they occur. Its `forms` are left out.
    states: additional markers. spelling: instead of that of `base` with the new markers.
    Raises ValueError if a key of `markers` occurs in no marker, because it is misspelt.
    """
    spell = _rename_markers(base, markers or {})
    if spelling is None and base.spelling is not None:
        spelling = base.spelling.rename(spell)
    renamed = {
        state: {spell(marker): target for marker, target in targets.items()}
        for state, targets in base.states.items()
    }
    return replace(
        base,
        name=name,
        aliases=aliases,
        states=merge_states(renamed, states or {}),
        source=source,
        spelling=spelling,
        forms=(),
        **changes,
    )


def _lead(markers: Markers, target: Target) -> dict[str, Target]:
    return dict.fromkeys((markers,) if isinstance(markers, str) else markers, target)


def _rename_markers(base: Format, markers: Mapping[str, str]) -> Callable[[str], str]:
    known = "\0".join(marker for targets in base.states.values() for marker in targets)
    for old in markers:
        if old not in known:
            raise ValueError(f"no marker of the format {base.name!r} contains {old!r}")
    # A single pass, so that replacements are not replaced again.
    pattern = re.compile("|".join(map(re.escape, markers)))
    return lambda text: pattern.sub(lambda found: markers.get(found.group(), ""), text)
