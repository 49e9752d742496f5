"""Finds a format's markup in the values of a call: the sign that the end of one is missing."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from itertools import chain

from ..base.json_types import JsonObject, decode_json
from ..base.limits import MAX_MARKUP, MAX_TOOL_NAME
from .arguments.ledger import Ledger, Slip
from .format import (
    TEXT_STATES,
    VALUE_STATES,
    Format,
    Jump,
    State,
    States,
    find_markers,
)
from .schema import FunctionSchema, ValueSchema

# Stands for a marker that is only spelled; no marker has it.
_HIDDEN = "\ufffc"
_WORD = re.compile(r"[^\s<>=\"'/]+")
# A mark of which no number or keyword consists.
_MARK = re.compile(r"[<>\"/|]")
# A function or a keyword in Python.
_CALL = re.compile(r"(\w+)\s*[=(]")
_KEYS = frozenset({State.KEY, State.HEADER})
_BETWEEN = (State.PARAMETERS, State.ELEMENTS)


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
        markers: States,
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
        self._ends = tuple(_tags(ends - values))
        self._last = tuple(_tags(inner - ends - values))
        self._key = _compile_key(keys, _all_markers(markers, _KEYS), format_.tag_prefix)
        own_ends = find_markers(markers, VALUE_STATES, {State.PARAMETERS})
        parts = {part for end in own_ends for part in (end[1:], end[:-1]) if not is_spelled(part)}
        self._broken_end = re.compile(_any(parts))
        self._end_word = re.compile(_any(re.findall(r"\w{3,}", " ".join(own_ends))))
        first = _tags(values)
        sections = find_markers(markers, (State.CONTENT,), {State.TOOL_SECTION}) - starts
        heads = find_markers(markers, before_calls, {State.IGNORED})
        next_call = _between_calls(ends, sections, heads, starts) + _name_before(all_keys)
        # Without one of these a value, which may be long, needs no search.
        tags = {*first, *self._ends, *self._last, *starts, *all_keys, *sections, format_.tag_prefix}
        self._any_sign = _compile_signs(tags, parts)
        self._signs = re.compile(rf"\A\s*(?:{_any(first)})|{next_call}", re.DOTALL)

    def is_in(
        self,
        arguments: str,
        names: Collection[str],
        schema: FunctionSchema,
        ledger: Ledger,
        tokens: Collection[str],
    ) -> bool:
        """Whether a value of `arguments`, which lack their last brace, has swallowed markup.

        names: the declared functions, and the parameters of this one. schema: of the arguments.
        ledger: its slips.
        tokens: the markers that were tokens where they have no meaning. Spelled out, they and all
            other tokens are words about the format.
        """
        # The end of a call that is spelled is text if the call has another one.
        ends = [end for end in self._ends if Slip.CALL_END in ledger.slips or end in tokens]
        texts = {
            key: _hide(value, self._tokens, tokens)
            for key, value in _read_values(arguments).items()
            if isinstance(value, str)
        }
        return any(
            (self._any_sign.search(text) is not None and self._is_in_text(text, names, ends))
            or (ledger.slips and self._is_slipped(text, names, ledger.slips, schema.member(key)))
            for key, text in texts.items()
        )

    def _is_slipped(
        self, text: str, names: Collection[str], slips: Collection[Slip], schema: ValueSchema
    ) -> bool:
        """Whether a slip of the call makes a part of its markup of a value's text."""
        return (
            (Slip.VALUE_END in slips and self._end_word.search(text) is not None)
            or (Slip.QUOTE in slips and not set(_CALL.findall(text)).isdisjoint(names))
            or (
                "string" not in schema.kinds
                and (Slip.MARK in slips or Slip.VALUE_END in slips)
                and _MARK.search(text) is not None
            )
        )

    def _has_key(self, text: str, names: Collection[str]) -> bool:
        found = self._key.finditer(text)
        return any(not set(_WORD.findall(match[1])).isdisjoint(names) for match in found)

    def _is_in_text(self, text: str, names: Collection[str], ends: Iterable[str]) -> bool:
        last = (*self._last, *ends)
        word = text.strip()
        ends_in_markup = word.endswith(last) and word not in last
        return (
            self._broken_end.search(text) is not None
            or self._signs.search(text) is not None
            or (ends_in_markup and not any(start in text[:-1] for start in self._starts))
            or self._has_key(text, names)
        )


def _read_values(arguments: str) -> JsonObject:
    """Return the members of `arguments`, which lack their last brace.

    Arguments that were written as a whole, with ends of their own, have none.
    """
    try:
        values = decode_json(arguments + "}")
    except ValueError:
        return {}
    return values if isinstance(values, dict) else {}


def _hide(text: str, markers: Iterable[str], shown: Collection[str]) -> str:
    for marker in markers:
        if marker not in shown:
            text = text.replace(marker, _HIDDEN)
    return text


def _tags(markers: Iterable[str]) -> set[str]:
    """Return the markers that have a word: others begin or end values that mean nothing by it."""
    return {marker for marker in markers if re.search(r"\w", marker)}


def _whole(tag: str) -> str:
    """Return a pattern for a tag; a word goes on after its last letter."""
    return re.escape(tag) + (r"(?!\w)" if tag[-1].isalnum() else "")


def _compile_signs(tags: Iterable[str], parts: Iterable[str]) -> re.Pattern[str]:
    """Return a pattern that finds any of the tags, and of the parts of ends."""
    words = sorted({tag.strip() for tag in _tags(tags)}, reverse=True)
    return re.compile("|".join([*map(_whole, words), *map(re.escape, sorted(parts))]) or "(?!)")


def _all_markers(markers: States, states: Iterable[State]) -> set[str]:
    return set(chain.from_iterable(markers.get(state, ()) for state in states))


def _compile_key(keys: Collection[str], ends: Collection[str], prefix: str) -> re.Pattern[str]:
    """Return a pattern for the markup around a key; its group is the key."""
    if prefix:
        return re.compile(f"{re.escape(prefix)}<(/?[^<>]+)>")
    pattern = f"(?:{_any(keys)})(.{{0,{MAX_MARKUP}}}?)(?:{_any(ends)})"
    return re.compile(pattern, re.DOTALL)


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
