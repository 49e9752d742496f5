"""The grammar of a format's calls, derived from its table: a structural tag of xgrammar.

vLLM, SGLang and TensorRT-LLM all read structural tags, so every engine constrains a request alike.
Source: xgrammar 0.2, docs "Structural Tag Usage".
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Sequence

from ..base.json_types import JsonObject
from ..base.limits import MAX_ENDS
from .argument_grammar import (
    GrammarBudget,
    Inexpressible,
    ParameterGrammar,
    either,
    escape,
    exactly,
    fill,
    in_turn,
    json_value,
    matching,
    optional,
    split_lines,
    star,
)
from .format import (
    CALL_STATES,
    TEXT_STATES,
    Format,
    Jump,
    Spelling,
    State,
    find_markers,
    target_state,
)
from .literal_grammar import LiteralGrammar

# Other names would need escaping, which differs by format.
_PLAIN_NAME = re.compile(r"[\w.:/-]+")
_PYTHON_NAME = re.compile(r"[^\W\d][\w.-]*")
_HOLE = re.compile(r"\{(?:name|arguments|index)\}")
ANY_TEXT: JsonObject = {"type": "any_text"}
_NUMBER = matching(r"\d+")
# Line breaks before calls that follow no content.
_GAP = matching(r"\n{0,3}")
_SPACE = r" \n\r\t"


def build_tag(
    format_: Format,
    tools: Sequence[tuple[str, JsonObject]],
    *,
    forced: bool = False,
    single: bool = False,
    any_order: bool = False,
) -> JsonObject | None:
    """Return a structural tag for calls of the tools; None if it cannot express their names.

    format_: with a spelling. tools: the names, each with the schema of its arguments.
    forced: the answer is calls only, at least one; otherwise text with any number of calls.
    single: at most one call, which ends the answer. any_order: whether the arguments may be in
        another order than in the schema.
    """
    spelling = format_.spelling
    if spelling is None:
        return None
    is_python = spelling.literals is not None and not spelling.literals.mark
    plain = _PYTHON_NAME if is_python else _PLAIN_NAME
    if not all(plain.fullmatch(name) for name, _ in tools):
        return None
    grammar = Arguments(format_, spelling, any_order=any_order)
    try:
        arguments = [(name, grammar.build(schema)) for name, schema in tools]
        calls = _Calls(format_, spelling, arguments, single=single)
        return {"type": "structural_tag", "format": calls.forced() if forced else calls.free()}
    except Inexpressible:
        return None


def find_calls(format_: Format, text: str) -> int:
    """Return where calls begin in `text`, which follows the text of an answer.

    Where a slip hides their marker, and in formats without one, they begin after what remains of
    the text between two calls, such as the header of a message.
    """
    opening = find_opening(format_)
    if opening is not None and (at := text.find(opening)) >= 0:
        return at
    between = "" if format_.spelling is None else format_.spelling.between
    return next(
        (len(between) - cut for cut in range(len(between)) if text.startswith(between[cut:])), 0
    )


def find_opening(format_: Format) -> str | None:
    """Return the text with which calls begin; None for a format without a marker of its own."""
    spelling = format_.spelling
    if spelling is None:
        return None
    opening, *_ = _HOLE.split(spelling.around[0] or spelling.call)
    try:
        return _Calls(format_, spelling, (), single=False).find_trigger(opening)
    except Inexpressible:
        return None


class Arguments:
    """Builds the grammars of arguments in a format's spelling, of one request."""

    def __init__(self, format_: Format, spelling: Spelling, *, any_order: bool) -> None:
        self._spend = GrammarBudget().spend
        self._format = format_
        self._spelling = spelling
        self._any_order = any_order

    def build(self, schema: JsonObject) -> JsonObject:
        """Return the grammar of a function's arguments. Raises `Inexpressible`."""
        any_order = self._any_order
        if self._spelling.parameters:
            grammar = LiteralGrammar if self._spelling.literals else ParameterGrammar
            return grammar(self._format, self._spelling, schema, any_order, self._spend).build()
        return json_value(schema, any_order=any_order)


class _Calls:
    """The calls of an answer. tools: names and the grammars of their arguments."""

    def __init__(
        self,
        format_: Format,
        spelling: Spelling,
        tools: Sequence[tuple[str, JsonObject]],
        *,
        single: bool,
    ) -> None:
        self._format = format_
        self._spelling = spelling
        self._tools = tools
        self._single = single

    def forced(self) -> JsonObject:
        """Return the grammar of calls without text."""
        lead = self._spelling.after_text
        before = [_GAP, optional(exactly(lead))] if lead else [_GAP]
        return in_turn([*before, self._section()])

    def free(self) -> JsonObject:
        """Return the grammar of text in which a trigger begins calls."""
        spelling = self._spelling
        opening = spelling.around[0] or spelling.call
        # Without a marker of their own, calls begin the answer.
        bare = find_markers(self._format.states, (State.START,), CALL_STATES)
        if not opening.startswith(tuple(bare)):
            return self._triggered(opening)
        text = ANY_TEXT
        if marker := spelling.after_text:
            calls = optional(in_turn([exactly(marker), self._section()]))
            text = in_turn([{**ANY_TEXT, "excludes": [marker]}, calls])
        first, *_ = _HOLE.split(spelling.around[0] + spelling.call)
        left, kept = _other_beginnings(first + name for name, _ in self._tools)
        return either([self._section(), matching(kept), in_turn([matching(left), text])])

    def _triggered(self, opening: str) -> JsonObject:
        """Return the grammar of text with calls. opening: the text with which they begin."""
        trigger = self.find_trigger(_HOLE.split(opening)[0])
        (before, after), call = self._spelling.around, self._spelling.call
        if before:
            content = in_turn([*fill(before.removeprefix(trigger)), self._calls()])
        else:
            content = either(self._call(call.removeprefix(trigger)))
        return {
            "type": "triggered_tags",
            "triggers": [trigger],
            "tags": [_tag(trigger, content, _list_ends(after))],
            "excludes": self._find_excluded(trigger),
            "stop_after_first": self._single,
        }

    def _section(self) -> JsonObject:
        """Return the grammar of all calls with the text around them."""
        before, after = self._spelling.around
        return in_turn([*fill(before), self._calls(), *fill(after)])

    def _calls(self) -> JsonObject:
        between, call = self._spelling.between, self._spelling.call
        if self._spelling.parameters and call.endswith("{arguments}"):
            # A tag of xgrammar needs an end after tags.
            one = either(tag["content"] for tag in self._call(call))
            return one if self._single else in_turn([one, star(in_turn([exactly(between), one]))])
        # White space between calls is often omitted.
        is_space = not between.strip()
        return {
            "type": "tags_with_separator",
            "tags": self._call(call, between if is_space else ""),
            "separator": "" if is_space else between,
            "at_least_one": True,
            "stop_after_first": self._single,
        }

    def _call(self, written: str, between: str = "") -> list[JsonObject]:
        """Return the tag of a call of each tool. written: its spelling. between: text after it."""
        before, after = written.split("{arguments}")
        return [
            _tag(
                "", in_turn([*fill(before, {"name": exactly(name), "index": _NUMBER}), value]), ends
            )
            for ends in [_list_ends(after + between)]
            for name, value in self._tools
        ]

    def find_trigger(self, text: str) -> str:
        """Return the beginning of `text` up to the marker that leads to calls.

        A marker of letters alone may be a word of the content, so all of the text is needed.
        Raises `Inexpressible` if there is no marker.
        """
        state: State | Jump = self._outside
        end = 0
        while isinstance(state, State) and not self._is_call(state):
            at = {
                marker: text.find(marker, end)
                for marker in self._format.states.get(state, {})
                if marker and text.find(marker, end) >= 0
            }
            if not at:
                break
            marker = min(at, key=lambda found: (at[found], -len(found)))
            if marker.isalpha():
                return text
            end = at[marker] + len(marker)
            state = target_state(self._format.states[state][marker])
        if not end:
            raise Inexpressible(text)
        return text if isinstance(state, State) and not self._is_call(state) else text[:end]

    @property
    def _outside(self) -> State:
        """The state around calls."""
        ignored = self._format.initial_state is State.IGNORED
        return State.IGNORED if ignored else State.CONTENT

    def _is_call(self, state: State) -> bool:
        """Return whether only calls follow."""
        following = map(target_state, self._format.states.get(state, {}).values())
        return state in CALL_STATES and TEXT_STATES.isdisjoint(following)

    def _find_excluded(self, trigger: str) -> list[str]:
        """Return the other markers that lead to calls, which text must not have."""
        markers = find_markers(self._format.states, (self._outside,), CALL_STATES)
        return sorted(m for m in markers if m not in trigger)


def _tag(begin: str, content: JsonObject, ends: list[str]) -> JsonObject:
    return {"type": "tag", "begin": begin, "content": content, "end": ends}


def _list_ends(written: str) -> list[str]:
    """Return the ways to write a text whose line breaks are optional. Raises `Inexpressible`."""
    pieces = [("", piece) if piece[:1] == "\n" else (piece,) for piece in split_lines(written)]
    if math.prod(map(len, pieces)) > MAX_ENDS:
        raise Inexpressible(f"there are more than {MAX_ENDS} ways to end a call")
    return ["".join(chosen) for chosen in itertools.product(*pieces)]


def _other_beginnings(beginnings: Iterable[str]) -> tuple[str, str]:
    """Return patterns for text that begins like none of `beginnings`, after white space.

    The first ends with the character that differs, the second is an answer that ends before that.
    """
    left, kept = _differ(set(beginnings), apart=_SPACE)
    return f"[{_SPACE}]*{left}", f"[{_SPACE}]*{kept}"


def _differ(texts: set[str], apart: str = "") -> tuple[str, str]:
    """Return the patterns of `_other_beginnings`. apart: characters that cannot be the first."""
    following: dict[str, set[str]] = {}
    for text in texts:
        following.setdefault(text[0], set()).add(text[1:])
    firsts = "".join(map(escape, sorted(following)))
    left, kept = [f"[^{apart}{firsts}]"], []
    for char, rest in sorted(following.items()):
        if "" not in rest:
            other, whole = _differ(rest)
            left.append(escape(char) + other)
            kept.append(escape(char) + whole)
    return f"(?:{'|'.join(left)})", f"(?:{'|'.join(kept)})?" if kept else ""
