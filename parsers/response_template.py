"""A checkpoint's own description of its answers, compiled to a table.

Since transformers 5.18 a tokenizer_config.json may have a `response_template`: the fields of an
answer, each with the texts or expressions that open and close it. The files of a model are
untrusted: no expression is compiled or run. A description that the table cannot hold is refused.
Source: transformers 5.18 utils/chat_parsing.
"""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from ..base.errors import REASONING_FLAG, TOOL_CALL_FLAG, SetupError, show
from ..base.json_types import JsonObject, check_nesting, is_deeper
from ..base.limits import MAX_DESCRIBED_MARKER, MAX_DESCRIBED_MARKERS, MAX_DESCRIPTION_BYTES
from .arguments.json_calls import CallKeys
from .base import ParserNames
from .format import Format, Jump, ReuseSuffix, Spelling, State, Target
from .literal_patterns import (
    Capture,
    Part,
    PatternError,
    Piece,
    Pieces,
    read_pattern,
    split_literals,
)

# The name of parsers that a description makes; the rest of the name is the description.
DESCRIBED = "template"
PREFIX = f"{DESCRIBED}:"
# The same where the values are to be transformers' own.
NATIVE_PREFIX = f"{PREFIX}native:"
REASONING_FIELDS = frozenset({"thinking", "reasoning", "reasoning_content"})
CONTENT, CALLS = "content", "tool_calls"
_FIELDS = REASONING_FIELDS | {CONTENT, CALLS}
_TAG = re.compile(r"<([\w:.-]+)[\s=].*")
# Texts, with white space between them, before a call's name, before a value and at the end.
MAX_TEXTS = 2


class DescriptionError(SetupError):
    """A description that the table cannot hold. field: of the answer."""

    def __init__(self, field: str, problem: str) -> None:
        self.field = field
        super().__init__(f"the model's `response_template` has a field {field!r} that {problem}.")


class Field(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A field of an answer."""

    open: str | list[str] | None = None
    open_pattern: str | None = None
    close: str | list[str] | None = None
    close_pattern: str | None = None
    content: str = "text"
    content_args: JsonObject = {}
    repeats: bool = False
    join: str | None = None
    optional: bool = True
    transform: object = None
    transform_each: bool = False


class Description(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A `response_template`."""

    fields: dict[str, Field]
    version: int = 1
    defaults: JsonObject = {}
    start_anchor: str | list[str] | None = None
    start_anchor_pattern: str | None = None


def name_description(description: object) -> str:
    """Return the parsers' name for a `response_template`. Raises `SetupError` for an unusable one.

    The name holds the description, so it suffices to build the parsers.
    """
    if is_deeper(description):
        raise SetupError("the model's `response_template` cannot be used: it is nested too deep.")
    try:
        text = msgspec.json.encode(description, order="sorted").decode()
    except ValueError as error:
        raise SetupError(f"the model's `response_template` cannot be used: {error}.") from error
    if len(text) > MAX_DESCRIPTION_BYTES:
        raise SetupError(
            f"the model's `response_template` has more than {MAX_DESCRIPTION_BYTES} bytes."
        )
    return PREFIX + text


def name_native(name: str) -> str:
    """Return the name of the same description's parsers whose values are transformers' own."""
    return NATIVE_PREFIX + read_text(name)


def wants_native(names: ParserNames) -> bool:
    """Return whether the values of these parsers are to be transformers' own."""
    given = msgspec.structs.astuple(names)
    return any(name is not None and name.startswith(NATIVE_PREFIX) for name in given)


def read_text(name: str) -> str:
    """Return the description, as JSON, that a parsers' name holds."""
    return name.removeprefix(NATIVE_PREFIX).removeprefix(PREFIX)


def describing_name(names: ParserNames) -> str:
    """Return the description that names the parsers; "" if they have other names.

    Raises `SetupError` if a second parser has another name.
    """
    both = {name for name in msgspec.structs.astuple(names) if name}
    own = next((name for name in both if name.startswith(PREFIX)), "")
    if own and len(both) > 1:
        raise SetupError(
            "no table holds the model's `response_template`, so transformers' own parser reads all "
            f"of the answer; set {TOOL_CALL_FLAG} and {REASONING_FLAG} to {DESCRIBED!r}, or leave "
            "one out."
        )
    return own


@functools.lru_cache(maxsize=64)
def find_table(name: str) -> Format | DescriptionError:
    """Return the format of a description, or why no table holds it. Raises `SetupError`."""
    try:
        return compile_description(name)
    except DescriptionError as error:
        return error


def describes(name: str, flag: str) -> bool:
    """Return whether a description has what a flag names a parser of. False if it is unusable."""
    try:
        fields = read_fields(name).keys()
    except SetupError:
        return False
    return CALLS in fields if flag == TOOL_CALL_FLAG else not REASONING_FIELDS.isdisjoint(fields)


@functools.lru_cache(maxsize=64)
def reasoning_part(name: str) -> str | None:
    """Return the name of a description's reasoning and text alone; None if no table holds them.

    With it, a frontend knows whether a prompt has opened the reasoning, and a grammar lets it pass,
    also where only transformers' own parser reads the calls.
    """
    description = msgspec.json.decode(check_nesting(read_text(name)))
    for kept in (REASONING_FIELDS | {CONTENT}, REASONING_FIELDS):
        fields = {field: part for field, part in description["fields"].items() if field in kept}
        part = name_description({**description, "fields": fields})
        with contextlib.suppress(SetupError):
            compile_description(part)
            return part
    return None


def compile_description(name: str) -> Format:
    """Return the format of a name that `name_description` made. Raises `SetupError`."""
    return _Compiler(read_fields(name)).compile()


def read_fields(name: str) -> dict[str, Field]:
    """Return the fields of a name that `name_description` made. Raises `SetupError`."""
    if len(text := read_text(name)) > MAX_DESCRIPTION_BYTES:
        raise SetupError(f"a description has more than {MAX_DESCRIPTION_BYTES} bytes.")
    try:
        description = msgspec.json.decode(check_nesting(text), type=Description)
    except msgspec.DecodeError as error:
        raise SetupError(f"the model's `response_template` cannot be used: {error}.") from error
    if description.version != 1:
        raise SetupError(
            f"the model's `response_template` has version {show(description.version)}; known is 1."
        )
    return description.fields


class _Compiler:
    """The states of one description.

    Without a field for text between the others, that text is dropped.
    """

    def __init__(self, fields: Mapping[str, Field]) -> None:
        self._fields = fields
        content = fields.get(CONTENT)
        self._implicit = content is not None and content.open is content.open_pattern is None
        self._outside = State.CONTENT if self._implicit else State.IGNORED
        self._states: dict[State, dict[str, Target]] = {self._outside: {}}
        self._keys = CallKeys()
        self._strip: str | None = ""
        self._undeclared = "string"
        self._quotes: tuple[str, ...] = ()
        self._spelling: Spelling | None = None

    def compile(self) -> Format:
        for name, field in self._fields.items():
            if name not in _FIELDS:
                raise DescriptionError(name, "an answer does not have")
            try:
                (self._add_calls if name == CALLS else self._add_text)(name, field)
                self._check_markers()
            except PatternError as error:
                raise DescriptionError(name, str(error)) from error
        if self._fields.keys() <= {CONTENT}:
            raise SetupError("the model's `response_template` has neither reasoning nor calls.")
        if CONTENT not in self._fields:  # a call that cannot be read is content
            self._states.setdefault(State.CONTENT, {}).update(self._states[State.IGNORED])
            self._add(State.IGNORED, "{[", ReuseSuffix(State.CONTENT))
        return Format(
            DESCRIBED,
            self._states,
            source="the checkpoint's `response_template`",
            initial_state=State.START if self._implicit else State.IGNORED,
            keys=self._keys,
            strip=self._strip,
            undeclared_type=self._undeclared,
            quotes=self._quotes,
            quotes_json=self._undeclared == "json",
            skips_words=True,  # transformers' own parser finds the parameters and drops the rest
            spelling=self._spelling,
        )

    def _check_markers(self) -> None:
        """Raise `PatternError` for markers for which the search takes seconds to build."""
        markers = {marker for targets in self._states.values() for marker in targets}
        if len(markers) > MAX_DESCRIBED_MARKERS:
            raise PatternError(f"is beyond the {MAX_DESCRIBED_MARKERS} markers of a description")
        if any(len(marker) > MAX_DESCRIBED_MARKER for marker in markers):
            raise PatternError(f"has a marker of more than {MAX_DESCRIBED_MARKER} characters")

    def _add(self, state: State, markers: Iterable[str], target: Target) -> None:
        self._states.setdefault(state, {}).update(dict.fromkeys(markers, target))

    def _add_text(self, name: str, field: Field) -> None:
        if field.content != "text" or field.transform is not None:
            raise PatternError(f"is not plain text but {field.content!r}, or is transformed")
        if field.content_args.get("strip", True) is not True or field.join:
            raise PatternError("keeps white space around its text, or joins texts with some")
        opens, closes = _read_markers(field, "open"), _read_markers(field, "close")
        if name in REASONING_FIELDS:
            if not opens or not closes:
                raise PatternError("needs an `open` and a `close`")
            for state in {self._outside, State.START}:
                self._add(state, opens, State.REASONING)
            self._add(State.REASONING, closes, State.START if self._implicit else State.IGNORED)
        elif self._implicit:
            self._add(State.CONTENT, closes, State.CONTENT)
        else:
            self._add(State.IGNORED, opens, State.START)
            # A grammar may hold the model to JSON alone; so it may without this field.
            self._add(State.IGNORED, "{[", ReuseSuffix(State.START))
            for state in (State.START, State.CONTENT):
                self._add(state, closes, State.IGNORED)

    # Calls.

    def _add_calls(self, name: str, field: Field) -> None:
        opens, closes = _read_edge(field, "open"), _read_edge(field, "close")
        if not opens or not closes:
            raise PatternError("needs an `open` and a `close`")
        after = Jump.RETURN if self._implicit else State.IGNORED
        wrapper, paths = _read_transform(field)
        exits, inner = _read_ends(closes, after)
        if paths == ("name", "content"):
            body = self._add_named(field, opens, exits)
            self._states.setdefault(body, {}).update({**inner, **exits})
            if inner:
                self._states.setdefault(State.TOOL_SECTION, {}).update(exits)
        elif field.content != "json" or inner or field.content_args:
            raise PatternError("has calls that are neither plain JSON nor named by their `open`")
        else:
            self._add_objects(opens, exits, wrapper, paths, in_list=field.transform_each)

    def _add_objects(
        self,
        opens: Sequence[Pieces],
        exits: Mapping[str, Target],
        wrapper: str | None,
        paths: tuple[str, str] | None,
        *,
        in_list: bool,
    ) -> None:
        """Add calls that are JSON objects, whose keys `paths` names; None: in OpenAI's form."""
        name, arguments = paths or ("name", "arguments")
        if paths:
            self._keys = CallKeys((name,), (arguments,), inside=(wrapper,) if wrapper else ())
        markers = [_single(pieces) for pieces in opens]
        self._add(self._outside, markers, State.JSON_CALLS)
        self._states[State.JSON_CALLS] = dict(exits)
        call = f'{{"{name}": "{{name}}", "{arguments}": {{arguments}}}}'
        if wrapper:
            call = f'{{"{wrapper}": {call}}}'
        begin, end = min(markers, key=len), next(iter(exits))
        if in_list:
            self._spelling = Spelling(call, around=(begin + "[", "]" + end), between=", ")
        else:
            self._spelling = Spelling(f"{begin}\n{call}\n{end}", between=self._between)

    @property
    def _between(self) -> str:
        return "\n" if self._implicit else ""

    def _add_named(
        self, field: Field, opens: Sequence[Pieces], exits: Mapping[str, Target]
    ) -> State:
        """Add calls whose name the opening text holds; return the state of their arguments."""
        tag = self._read_tag(field) if field.content == "xml-inline" else None
        body = State.PARAMETERS if tag else State.ARGUMENTS
        if tag is None:
            self._quotes = _read_quotes(field)
        self._states[State.NAME] = dict(exits)
        for pieces in opens:
            before, after = _split_at(pieces, "name")
            lead = split_literals(before)
            if not 1 <= len(lead) <= MAX_TEXTS:
                raise PatternError("has an `open` with no text or three texts before the name")
            self._add(self._outside, lead[:1], State.NAME if len(lead) == 1 else State.TOOL_SECTION)
            if len(lead) > 1:
                self._add(State.TOOL_SECTION, lead[1:], State.NAME)
                self._states[State.TOOL_SECTION].update(exits)
            self._end_name(split_literals(after), tag, body)
            if tag and (begin := _TAG.fullmatch(lead[-1])):
                # A description may leave out the end of the tag that holds the name.
                self._states.setdefault(body, {})[f"</{begin[1]}>"] = State.TOOL_SECTION
                self._states.setdefault(State.TOOL_SECTION, {}).update(exits)
        if tag:
            self._add_tag(tag)
        if not self._quotes:
            self._spelling = self._spell(min(opens, key=_length), next(iter(exits)), field, tag)
        return body

    def _end_name(self, after: Sequence[str], tag: Pieces | None, body: State) -> None:
        if len(after) > 1:
            raise PatternError("has an `open` with two texts after the name")
        if after:
            self._add(State.NAME, after, body)
        elif tag is None:
            self._add(State.NAME, "{", ReuseSuffix(body))
        else:
            self._add(State.NAME, [str(tag[0])], State.KEY)

    def _read_tag(self, field: Field) -> Pieces:
        """Return the pieces of a parameter, and take over how its value is read."""
        unknown = field.content_args.keys() - {"tag_pattern", "value_parser"}
        if unknown:
            raise PatternError(f"has `content_args` with {min(unknown)!r}")
        pattern = field.content_args.get("tag_pattern")
        alternatives = read_pattern(pattern) if isinstance(pattern, str) else []
        if len(alternatives) != 1:
            raise PatternError("needs a `tag_pattern` without alternatives")
        parser = field.content_args.get("value_parser") or {"name": None}
        match parser:
            case {"name": "json", "args": {"allow_non_json": True}}:
                self._undeclared, self._strip = "json", None
            case {"name": "text", "args": {"strip": False}} | {"name": None}:
                self._strip = None if Part.GAP in alternatives[0] else ""
            case {"name": "text"}:
                self._strip = None
            case _:
                raise PatternError(f"has the `value_parser` {parser!r}"[:200])
        return alternatives[0]

    def _add_tag(self, tag: Pieces) -> None:
        before, rest = _split_at(tag, "key")
        middle, after = _split_at(rest, "value")
        begin, ends = _single(before), [_single(after)]
        texts = split_literals(middle)
        if not 1 <= len(texts) <= MAX_TEXTS:
            raise PatternError("has a `tag_pattern` with no text or three texts before the value")
        self._add(State.PARAMETERS, [begin], State.KEY)
        if len(texts) == 1:
            self._add(State.KEY, texts, State.VALUE)
        else:
            self._add(State.KEY, texts[:1], State.PARAMETERS)
            self._add(State.PARAMETERS, texts[1:], State.VALUE)
        self._add(State.VALUE, ends, State.PARAMETERS)

    def _spell(self, open_: Pieces, end: str, field: Field, tag: Pieces | None) -> Spelling:
        before, after = _split_at(open_, "name")
        close = _write(min(_read_edge(field, "close"), key=_length)) if tag else end
        call = f"{_write(before)}{{name}}{_write(after)}{{arguments}}{close}"
        values = {State.VALUE: _write(tag) + "\n"} if tag else {}
        return Spelling(call, between=self._between, parameters=values)


def _read_edge(field: Field, edge: str) -> list[Pieces]:
    """Return the alternatives that open or close a field; without those at the text's end."""
    text, pattern = getattr(field, edge), getattr(field, f"{edge}_pattern")
    if text is not None and pattern is not None:
        raise PatternError(f"has both `{edge}` and `{edge}_pattern`")
    literals = [text] if isinstance(text, str) else text or ()
    found = [(one,) for one in literals] if pattern is None else read_pattern(pattern)
    if () in found or ("",) in found:
        raise PatternError(f"has an empty `{edge}`")
    return [pieces for pieces in found if edge == "open" or pieces != (Part.END,)]


def _read_ends(
    closes: Iterable[Pieces], after: State | Jump
) -> tuple[dict[str, Target], dict[str, Target]]:
    """Return the markers that end a call, and those in front of them."""
    ends = [split_literals(close) for close in closes]
    if any(not 1 <= len(end) <= MAX_TEXTS for end in ends):
        raise PatternError("has a `close` without a literal text, or with more than two")
    inner = [end[0] for end in ends if len(end) > 1]
    return dict.fromkeys((end[-1] for end in ends), after), dict.fromkeys(inner, State.TOOL_SECTION)


def _read_markers(field: Field, edge: str) -> list[str]:
    return [_single(pieces) for pieces in _read_edge(field, edge)]


def _single(pieces: Sequence[Piece]) -> str:
    """Return the one literal text of `pieces`."""
    texts = split_literals(pieces)
    if len(texts) != 1 or not texts[0].strip():
        raise PatternError("has a marker that is not one literal text")
    return texts[0]


def _split_at(pieces: Pieces, name: str) -> tuple[Pieces, Pieces]:
    """Return the pieces before and after a named group."""
    if Capture(name) not in pieces:
        raise PatternError(f"has no group {name!r}")
    at = pieces.index(Capture(name))
    return pieces[:at], pieces[at + 1 :]


def _write(pieces: Pieces) -> str:
    """Return `pieces` as a model may write them: a line break for white space within."""
    return "".join(
        piece
        if isinstance(piece, str)
        else f"{{{piece.name}}}"
        if isinstance(piece, Capture)
        else "\n"
        for piece in pieces
    )


def _length(pieces: Pieces) -> int:
    return sum(len(piece) for piece in pieces if isinstance(piece, str))


def _read_transform(field: Field) -> tuple[str | None, tuple[str, str] | None]:
    """Return the key around a call object, and the keys of its name and arguments.

    ("name", "content") if the opening text holds the name; None for OpenAI's own form.
    """
    match field.transform:
        case {"function": "{content}", **more} if not field.transform_each:
            found: tuple[str | None, tuple[str, str] | None] = (None, None)
        case {"function": {"name": str(name), "arguments": str(arguments), **rest}, **more} if (
            not rest
        ):
            found = _read_paths(name, arguments, in_list=field.transform_each)
        case _:
            raise PatternError("has a `transform` that is not a call with a name and arguments")
    if more.keys() - {"type"} or more.get("type", "function") != "function":
        raise PatternError("has a `transform` with further keys")
    return found


def _read_paths(
    name: str, arguments: str, *, in_list: bool
) -> tuple[str | None, tuple[str, str] | None]:
    """Return the key around a call object, and the keys of its name and arguments."""
    if (name, arguments) == ("{name}", "{content}") and not in_list:
        return None, ("name", "content")
    pattern = re.compile(r"\{" + ("" if in_list else r"content\.") + r"(?:(\w+)\.)?(\w+)\}")
    found, other = pattern.fullmatch(name), pattern.fullmatch(arguments)
    if found is None or other is None or found[1] != other[1]:
        raise PatternError(f"takes the call from {name!r} and {arguments!r}")
    return found[1], (found[2], other[2])


def _read_quotes(field: Field) -> tuple[str, ...]:
    """Return the marks around strings in the JSON arguments."""
    if field.content != "json":
        raise PatternError(f"has the content {field.content!r}")
    unknown = field.content_args.keys() - {"unquoted_keys", "string_delims"}
    if unknown:
        raise PatternError(f"has `content_args` with {min(unknown)!r}")
    quotes = []
    for pair in field.content_args.get("string_delims", []):
        match pair:
            case [str(begin), str(end)] if begin == end and begin:
                quotes.append(begin)
            case _:
                raise PatternError(f"has strings between {pair!r}"[:200])
    return tuple(quotes)
