"""Finds a format's markup in the values of a call: the sign that the end of one is missing."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import chain
from typing import NamedTuple, TypeAlias

from ..base.json_types import JsonObject, check_nesting
from ..base.limits import MAX_MARKUP, MAX_TOOL_NAME
from .arguments.ledger import Ledger, Slip
from .format import (
    TEXT_STATES,
    VALUE_STATES,
    Format,
    Jump,
    State,
    Target,
    target_state,
)
from .schema import FunctionSchema

# Stands for a marker that is only spelled; no marker has it.
_HIDDEN = "\ufffc"
# A mark of which no number or keyword consists.
_MARK = re.compile(r"[<>\"/|]")
_WORD = re.compile(r"[^\s<>=\"'/]+")
_KEYS = frozenset({State.KEY, State.HEADER})
_BETWEEN = (State.PARAMETERS, State.ELEMENTS)
Markers: TypeAlias = Mapping[State, Mapping[str, Target]]
"""By state, each marker's target."""
# A shorter part of an end marker is a part of others, too.
_LEAST_BROKEN = 6


class _Slips(NamedTuple):
    """The slips of a call. slipped: there is any, or a tag of the format in a value.

    is_merged: the call has the keys of another one, too. unended: an end may be missing.
    """

    slipped: bool
    is_merged: bool
    unended: bool


class SwallowedMarkup:
    """Finds in a call's arguments markup whose only reason is a missing end.

    A value without one of the format's tags is text. One that has some may mention them, since the
    model may be writing about its own format. It has swallowed them if they are where only the
    format puts them: around a declared parameter, between two calls, at the value's edges.

    markers: by state, each marker's target. tokens: those that count only as one token.
    is_spelled: whether a text is ordinary, without any token of the vocabulary.
    """

    def __init__(
        self,
        format_: Format,
        markers: Markers,
        tokens: Collection[str],
        is_spelled: Callable[[str], bool],
    ) -> None:
        # Longest first: one may have another within it.
        self._tokens = sorted(tokens, key=lambda marker: (-len(marker), marker))
        after_calls: set[State | Jump] = {*TEXT_STATES, State.TOOL_SECTION, Jump.RETURN}
        ends = find_markers(markers, _BETWEEN, after_calls)
        ends -= find_markers(markers, (State.CONTENT,), set(State).difference(TEXT_STATES))
        before_calls = (State.CONTENT, State.TOOL_SECTION, State.PARAMETERS)
        starts = find_markers(markers, before_calls, {State.NAME})
        value_ends = _all_markers(markers, VALUE_STATES)
        all_keys = find_markers(markers, _BETWEEN, _KEYS)
        # One that ends a value, perhaps at the beginning of a line, is not found in it.
        keys = {key for key in all_keys if not any(end.endswith(key) for end in value_ends)}
        before_values: set[State | Jump] = {*VALUE_STATES, Jump.BY_HEADER}
        values = find_markers(markers, (State.PARAMETERS, *_KEYS), before_values)
        values |= find_markers(markers, _KEYS, {State.PARAMETERS})
        doubled = find_markers(markers, _BETWEEN, {State.PARAMETERS})
        inner = {*keys, *doubled, *value_ends, format_.tag_prefix}
        self._starts = tuple(starts)
        self._first = tuple(values - {""})
        self._ends = tuple(_tags(ends - values))
        self._last = tuple(_tags(inner - ends - values))
        self._key = _compile_key(keys, _all_markers(markers, _KEYS), format_.tag_prefix)
        self._value_ends = find_markers(markers, VALUE_STATES, {State.PARAMETERS})
        self._broken_ends = tuple(part for end in self._value_ends for part in _broken(end))
        self._unspelled_ends = tuple(part for part in self._broken_ends if not is_spelled(part))
        self._end_words = re.compile(_any(re.findall(r"\w{3,}", " ".join(self._value_ends))))
        first = _tags(values)
        sections = find_markers(markers, (State.CONTENT,), {State.TOOL_SECTION}) - starts
        heads = find_markers(markers, before_calls, {State.IGNORED})
        next_call = _between_calls(ends, sections, heads, starts) + _name_before(all_keys)
        # Without one of these a value, which may be long, needs no search.
        tags = {*first, *self._ends, *self._last, *starts, *all_keys, *sections, format_.tag_prefix}
        self._tags = re.compile("|".join(map(_whole, sorted(_tags(tags), reverse=True))) or "(?!)")
        self._signs = re.compile(rf"\A\s*(?:{_any(first)})|{next_call}", re.DOTALL)

    def is_in(
        self,
        arguments: str,
        names: Collection[str],
        schema: FunctionSchema,
        ledger: Ledger,
        lacks_key: bool,
        tokens: Collection[str],
    ) -> bool:
        """Whether a value of `arguments`, which lack their last brace, has swallowed markup.

        names: the declared functions, and the parameters of this one. schema: of the arguments.
        ledger: its slips. lacks_key: a required parameter is missing. That, and other facts of the
            schema, count only if there is a slip, or a tag of the format in a value.
        tokens: the markers that were tokens where they have no meaning. Spelled out, they and all
            other tokens are words about the format.
        """
        values = _read_values(arguments)
        texts = {
            key: _hide(value, self._tokens, tokens)
            for key, value in values.items()
            if isinstance(value, str)
        }
        tagged = any(self._tags.search(text) is not None for text in texts.values())
        slips = _find_slips(values, schema, ledger, lacks_key=lacks_key, tagged=tagged)
        return (
            (tagged and self._has_tags(texts.values(), names, self._list_ends(ledger, tokens)))
            or self._has_broken_end(texts.values())
            or (slips.unended and self._has_lost_end(texts.values(), names, slips.is_merged))
            or _has_odd_quotes(texts.values(), ledger.quote)
            or (slips.slipped and _has_mark(texts, schema))
        )

    def _list_ends(self, ledger: Ledger, tokens: Collection[str]) -> list[str]:
        """Return the ends of calls that are markup at the end of a value.

        One that is spelled is text if the call has another one.
        """
        return [end for end in self._ends if Slip.CALL_END in ledger.slips or end in tokens]

    def _has_tags(
        self, texts: Iterable[str], names: Collection[str], ends: Collection[str]
    ) -> bool:
        return any(self._is_in_text(text, names, ends) for text in texts)

    def _has_broken_end(self, texts: Iterable[str]) -> bool:
        return any(part in text for text in texts for part in self._unspelled_ends)

    def _has_lost_end(self, texts: Iterable[str], names: Collection[str], is_merged: bool) -> bool:
        return any(self._is_unended(text, names, is_merged=is_merged) for text in texts)

    def _is_unended(self, text: str, names: Collection[str], *, is_merged: bool) -> bool:
        calls = re.findall(r"(\w+)\s*[=(]", text)
        is_doubled = text.lstrip().startswith(self._first)
        return (
            is_doubled
            or self._end_words.search(text) is not None
            or any(part in text for part in self._broken_ends)
            or not set(calls).isdisjoint(names)
            or (is_merged and self._tags.search(text) is not None)
        )

    def _has_key(self, text: str, names: Collection[str]) -> bool:
        found = self._key.finditer(text)
        return any(not set(_WORD.findall(match[1])).isdisjoint(names) for match in found)

    def _is_in_text(self, text: str, names: Collection[str], ends: Iterable[str]) -> bool:
        last = (*self._last, *ends)
        word = text.strip()
        ends_in_markup = word.endswith(last) and word not in last
        return (
            self._signs.search(text) is not None
            or (ends_in_markup and not any(start in text[:-1] for start in self._starts))
            or self._has_key(text, names)
        )


def _read_values(arguments: str) -> JsonObject:
    """Return the members of `arguments`, which lack their last brace.

    Arguments that were written as a whole, with ends of their own, have none.
    """
    try:
        values = json.loads(check_nesting(arguments + "}"))
    except ValueError:
        return {}
    return values if isinstance(values, dict) else {}


def _find_slips(
    values: JsonObject, schema: FunctionSchema, ledger: Ledger, *, lacks_key: bool, tagged: bool
) -> _Slips:
    """Return the slips of a call. tagged: a value has a tag of the format."""
    slipped = tagged or not ledger.slips.isdisjoint({Slip.VALUE_END, Slip.MARK})
    is_merged = slipped and _has_other_keys(values, schema)
    unended = Slip.VALUE_END in ledger.slips or (slipped and lacks_key) or is_merged
    return _Slips(slipped, is_merged, unended)


def _has_odd_quotes(texts: Iterable[str], quote: str) -> bool:
    """Whether a text has a quote without its counterpart."""
    return bool(quote) and any(text.count(quote) % 2 for text in texts)


def _has_mark(texts: Mapping[str, str], schema: FunctionSchema) -> bool:
    """Whether a text whose key takes no string has a mark that no number or keyword has."""
    return any(
        "string" not in schema.member(key).kinds and _MARK.search(text)
        for key, text in texts.items()
    )


def _hide(text: str, markers: Iterable[str], shown: Collection[str]) -> str:
    for marker in markers:
        if marker not in shown:
            text = text.replace(marker, _HIDDEN)
    return text


def _has_other_keys(keys: Iterable[str], schema: FunctionSchema) -> bool:
    """Whether some of a call's keys are declared, and others, perhaps another call's, are not."""
    return len({schema.member(key).declared for key in keys}) > 1


def _tags(markers: Iterable[str]) -> set[str]:
    """Return the markers that have a word: others begin or end values that mean nothing by it."""
    return {marker for marker in markers if re.search(r"\w", marker)}


def _whole(tag: str) -> str:
    """Return a pattern for a tag; a word goes on after its last letter."""
    return re.escape(tag) + (r"(?!\w)" if tag[-1].isalnum() else "")


def find_markers(
    markers: Markers, states: Iterable[State], targets: Collection[State | Jump]
) -> set[str]:
    """Return the markers that lead from one of `states` to one of `targets`."""
    return {
        marker
        for state in states
        for marker, target in markers.get(state, {}).items()
        if marker and target_state(target) in targets
    }


def _all_markers(markers: Markers, states: Iterable[State]) -> set[str]:
    return set(chain.from_iterable(markers.get(state, ()) for state in states))


def _compile_key(keys: Collection[str], ends: Collection[str], prefix: str) -> re.Pattern[str]:
    """Return a pattern for the markup around a key; its group is the key."""
    if prefix:
        return re.compile(f"{re.escape(prefix)}<(/?[^<>]+)>")
    pattern = f"(?:{_any(keys)})(.{{0,{MAX_MARKUP}}}?)(?:{_any(ends)})"
    return re.compile(pattern, re.DOTALL)


def _broken(end: str) -> Iterable[str]:
    """Yield what a slip leaves of a value's end marker."""
    parts = (end[1:], end[:-1], end[: max(0, end.rfind("<"))])
    return (part for part in parts if len(part) >= _LEAST_BROKEN)


def _between_calls(
    ends: Iterable[str], sections: Iterable[str], heads: Iterable[str], starts: Iterable[str]
) -> str:
    """Return a pattern for the end of a call and the start of the next one.

    heads: the markers before a start, perhaps with a word after each of them, as the kind of call.
    """
    opening = rf"(?:(?:{_any(sections)})\s*)?(?:(?:{_any(heads)})\w*\s*)*"
    return rf"(?:{_any(ends)})\s*{opening}(?:{_any(starts)})"


def _name_before(keys: Iterable[str]) -> str:
    """Return a pattern for a call's name: up to a key, or the end of the value."""
    return f"(?:.{{1,{MAX_TOOL_NAME}}}?(?:{_any(keys)})|[^<]{{1,{MAX_TOOL_NAME}}}\\Z)"


def _any(markers: Iterable[str]) -> str:
    """Return a pattern for any of `markers`; without any it matches nothing."""
    return "|".join(re.escape(marker) for marker in sorted(markers, reverse=True)) or "(?!)"
