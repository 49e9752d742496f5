"""Finds a format's markup in the values of a call: the sign that the end of one is missing."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping
from itertools import chain
from typing import TypeAlias

from ..base.limits import MAX_MARKUP, MAX_TOOL_NAME
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
# A shorter marker begins or ends values that mean nothing by it.
_SHORTEST = 3
# A shorter part of an end marker is a part of others, too.
_LEAST_BROKEN = 6


class SwallowedMarkup:
    """Finds in a call's arguments markup whose only reason is a missing end.

    A value may mention markers; the model may be writing about its own format. It has swallowed
    some if they are where only the format puts them: around a declared parameter, between two
    calls, and at the beginning and the end of the value.

    markers: by state, each marker's target. tokens: those that count only as one token.
    """

    def __init__(self, format_: Format, markers: Markers, tokens: Collection[str]) -> None:
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
        last = {*ends, *keys, *doubled, *value_ends, format_.tag_prefix}
        self._starts = tuple(starts)
        self._first = tuple(values - {""})
        self._last = _long(last - values)
        self._key = _compile_key(keys, _all_markers(markers, _KEYS), format_.tag_prefix)
        self._value_ends = find_markers(markers, VALUE_STATES, {State.PARAMETERS})
        self._broken_ends = tuple(part for end in self._value_ends for part in _broken(end))
        self._end_words = re.compile(_any(re.findall(r"\w{3,}", " ".join(self._value_ends))))
        first = _long(values)
        sections = find_markers(markers, (State.CONTENT,), {State.TOOL_SECTION}) - starts
        # Perhaps with a word after each of them, as the kind of call.
        heads = find_markers(markers, before_calls, {State.IGNORED})
        opening = rf"(?:(?:{_any(sections)})\s*)?(?:(?:{_any(heads)})\w*\s*)*"
        between = rf"(?:{_any(ends)})\s*{opening}(?:{_any(starts)})"
        name = f"(?:.{{1,{MAX_TOOL_NAME}}}?(?:{_any(all_keys)})|[^<]{{1,{MAX_TOOL_NAME}}}\\Z)"
        signs = [rf"\A\s*(?:{_any(first)})", between + name]
        # Without one of these a value, which may be long, needs no search.
        self._marks = {*first, *self._last, *starts, *all_keys, *self._broken_ends} - {""}
        self._signs = re.compile("|".join(signs), re.DOTALL)

    def is_in(
        self,
        arguments: str,
        names: Collection[str],
        schema: FunctionSchema,
        unended: bool,
        lacking: str,
        tokens: Collection[str],
    ) -> bool:
        """Whether a value of `arguments`, which lack their last brace, has swallowed markup.

        names: the declared functions, and the parameters of this one. schema: of the arguments.
        unended: the end of one of the values is missing, or was guessed, or a parameter is; then
            its words, and the syntax of a call, are a sign, too.
        lacking: the quote that a key lacks; "" if none does. A value may have it instead.
        tokens: the markers that were tokens where they have no meaning. Spelled out, they and all
            other tokens are words about the format.
        """
        try:
            values = json.loads(arguments + "}").items()
        except (ValueError, AttributeError, RecursionError):
            return False  # the arguments were written as a whole, with ends of their own
        is_merged = _has_other_keys([key for key, _ in values], schema)
        unended |= is_merged
        return any(
            self._is_in_text(text := _hide(value, self._tokens, tokens), names)
            or (unended and self._has_lost_end(text, names, is_merged=is_merged))
            or (lacking and value.count(lacking) % 2)
            or ("string" not in schema.member(key).kinds and _MARK.search(value) is not None)
            for key, value in values
            if isinstance(value, str)
        )

    def _has_mark(self, text: str) -> bool:
        return any(mark in text for mark in self._marks)

    def _has_lost_end(self, text: str, names: Collection[str], *, is_merged: bool) -> bool:
        calls = re.findall(r"(\w+)\s*[=(]", text)
        is_doubled = text.lstrip().startswith(self._first)
        return (
            is_doubled
            or self._end_words.search(text) is not None
            or not set(calls).isdisjoint(names)
            or (is_merged and self._has_mark(text))
        )

    def _has_broken_end(self, text: str) -> bool:
        for end in self._value_ends:
            text = text.replace(end, "")
        return any(part in text for part in self._broken_ends)

    def _has_key(self, text: str, names: Collection[str]) -> bool:
        found = self._key.finditer(text)
        return any(not set(_WORD.findall(match[1])).isdisjoint(names) for match in found)

    def _is_in_text(self, text: str, names: Collection[str]) -> bool:
        if not self._has_mark(text):
            return False
        word = text.strip()
        ends_in_markup = word.endswith(self._last) and word not in self._last
        return (
            self._signs.search(text) is not None
            or (ends_in_markup and not any(start in text[:-1] for start in self._starts))
            or self._has_broken_end(text)
            or self._has_key(text, names)
        )


def _hide(text: str, markers: Iterable[str], shown: Collection[str]) -> str:
    for marker in markers:
        if marker not in shown:
            text = text.replace(marker, _HIDDEN)
    return text


def _has_other_keys(keys: Iterable[str], schema: FunctionSchema) -> bool:
    """Whether some of a call's keys are declared, and others, perhaps another call's, are not."""
    return len({schema.member(key).declared for key in keys}) > 1


def _long(markers: Iterable[str]) -> tuple[str, ...]:
    return tuple(marker for marker in markers if len(marker) >= _SHORTEST)


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


def _any(markers: Iterable[str]) -> str:
    """Return a pattern for any of `markers`; without any it matches nothing."""
    return "|".join(re.escape(marker) for marker in sorted(markers, reverse=True)) or "(?!)"
