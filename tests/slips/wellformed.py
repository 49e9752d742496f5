"""Well-formed calls of every kind, in each format's own syntax: they must be read as they stand.

Keys and values are of any kind, declared or not, under schemas that are strict, open, maps, or not
there at all. What a client got is right if the writer makes the same output of it again.
"""

from __future__ import annotations

import functools
import json
import keyword
import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from backedge.parsers.events import Event
from backedge.parsers.format import Format, State
from backedge.parsers.parser_lookup import tool_format

from tests.parsers.event_outcome import read_shown
from tests.parsers.families.family import Family, Invocation
from tests.slips.outcome import Class, read_object

Schema = dict[str, Any]
PYTHON_STATES = {State.PYTHON_CALLS, State.PYTHON_LINES, State.CALL_LIST}
Drawn = tuple[Invocation, Schema | None]
WORDS = (
    "alpha",
    "Beta gamma",
    "a, b; c",
    "x.y",
    "Münster",
    "世界 👋🏽",
    "it's",
    "100 %",
    "C:\\new",
)
TEXTS = (
    *WORDS,
    'say "hi" \\n',
    "first\n\n  second\tx",
    "def f(x):\n    return {'a': [x]}\n",
    "<b>bold</b> &amp; <br/>",
    "if a < b and b > c: (d)",
    "mkdir -p x/{a,b} && echo '$HOME'",
)
KEYS = ("description", "timeout", "reason", "_meta", "x2", "name", "arguments", "parameters")
ODD = "'\"<>=:,;|(){}[]\n \t/\\.-+#é世"
# A token within DSML's tags.
PARTS = re.compile(r"｜\w+｜")
# Tags of no format of ours, and of some.
FOREIGN_TAGS = (
    "<params>",
    "</params>",
    "<functions>",
    "</tool>",
    "<args>",
    "</values>",
    "<![CDATA[",
    *("</body>", "<parameter=x>", "</parameter>", "<arg_value>", "</invoke>", "</function>"),
)
PLAIN: Schema = {"path": "string", "n": "integer", "ratio": "number", "on": "boolean",
                 "tags": "array", "options": "object"}  # fmt: skip


@dataclass(frozen=True)
class WellFormed:
    """One call, and how its writer writes it.

    kind: a key of `KINDS`. ends_turn: the output ends with what ends a turn, which is text here.
    """

    writer: str
    kind: str
    call: Invocation
    schema: Schema | None
    output: str
    ends_turn: bool = False

    @property
    def tools(self) -> list[dict[str, Any]]:
        """The request's tools: the call's function, and one without parameters."""
        schemas = {self.call[0]: self.schema, "get_time": declare({})}
        return [
            {
                "type": "function",
                "function": {
                    "name": name,
                    "description": "It helps.",
                    **({} if schema is None else {"parameters": schema}),
                },
            }
            for name, schema in schemas.items()
        ]


# The kinds of calls.


def declared(draw: random.Random, _: Format) -> Drawn:
    """Declared keys with values of their types."""
    keys = draw.sample(sorted(PLAIN), draw.randint(1, 4))
    required = draw.choice(({}, {"required": keys}))
    return ("f", {key: draw_value(draw, PLAIN[key]) for key in keys}), {
        **declare({key: PLAIN[key] for key in keys}),
        **draw_openness(draw),
        **required,
    }


def one_key_more(draw: random.Random, format_: Format) -> Drawn:
    """One argument more than declared; strict tools and zod send `additionalProperties: false`."""
    (name, arguments), schema = declared(draw, format_)
    assert schema is not None
    more = {draw.choice(KEYS): draw_value(draw, "string")}
    items = [*arguments.items(), *more.items()]
    draw.shuffle(items)
    return (name, dict(items)), {**schema, "additionalProperties": False}


def missing(draw: random.Random, _: Format) -> Drawn:
    """A required parameter that the model left out."""
    text = draw.choice(("the parameter", "its value", "a function", *TEXTS))
    schema = declare({"path": "string", "n": "integer"})
    return ("f", {"path": text}), {**schema, "required": ["path", "n"]}


def odd_keys(draw: random.Random, _: Format) -> Drawn:
    """Keys that are empty or have characters of a syntax, beside declared ones or alone."""
    keys = {draw_odd_key(draw) for _ in range(draw.randint(1, 2))}
    arguments = {key: draw_value(draw, "string") for key in keys}
    properties = {}
    if draw.randrange(2):
        arguments["path"] = draw_value(draw, "string")
        properties["path"] = "string"
    if not draw.randrange(3):
        properties |= dict.fromkeys(keys, "string")
    return ("f", arguments), {**declare(properties), **draw_openness(draw)}


def maps(draw: random.Random, _: Format) -> Drawn:
    """Keys that the model chose, whose values have a schema."""
    type_ = draw.choice(("string", "integer", "boolean"))
    keys = {draw_odd_key(draw) if draw.randrange(2) else draw.choice(KEYS) for _ in range(3)}
    values = {key: draw_value(draw, type_) for key in keys}
    # Not every template takes a schema without any.
    own: Schema = draw.choice(({}, {"properties": {}}))
    return ("f", values), {"type": "object", **own, "additionalProperties": {"type": type_}}


def other_types(draw: random.Random, format_: Format) -> Drawn:
    """Values of another type than declared, as far as the syntax has types."""
    arguments, properties = {}, {}
    for key in draw.sample(sorted(PLAIN), draw.randint(1, 3)):
        properties[key] = PLAIN[key]
        other = draw.choice([type_ for type_ in PLAIN.values() if _differs(format_, key, type_)])
        arguments[key] = "many" if other == "string" else draw_value(draw, other)
    return ("f", arguments), {**declare(properties), **draw_openness(draw)}


def _differs(format_: Format, key: str, type_: str) -> bool:
    """Whether the syntax tells a type from the one that `PLAIN` declares for `key`."""
    declared = PLAIN[key]
    if format_.quotes and declared == "string":
        return type_ in {"array", "object"}  # a bare word is a string if one is declared
    if State.ELEMENTS in format_.states and type_ in {"array", "object"}:
        return declared not in {"array", "object"}  # elements of an object or of a list
    return bool(type_ != declared)


def like_tags(draw: random.Random, format_: Format) -> Drawn:
    """Strings that are nearly the format's tags, or have tags of others."""
    words = [draw.choice((*TEXTS, *FOREIGN_TAGS)) for _ in range(draw.randint(0, 2))]
    words += [draw_near_tag(draw, format_) for _ in range(draw.randint(1, 2))]
    draw.shuffle(words)
    text = draw.choice(("", " ", "\n")).join(words)
    value = without_own_tags(text, format_)
    other = {"path": "alpha"} if draw.randrange(2) else {}
    return ("f", {**other, "text": value}), {
        **declare({"path": "string", "text": "string"}),
        **draw_openness(draw),
        **draw.choice(({}, {"required": ["path", "text"]})),
    }


def no_schema(draw: random.Random, _: Format) -> Drawn:
    """Calls of a function that declares no parameters, or any."""
    keys = draw.sample(KEYS, draw.randint(0, 3))
    schema = draw.choice((None, {}, {"type": "object"}, declare({})))
    return ("f", {key: draw_value(draw, "string") for key in keys}), schema


def nested(draw: random.Random, format_: Format) -> Drawn:
    """Values of any type within each other, where the syntax has types of its own."""
    is_python = bool(PYTHON_STATES & format_.states.keys())
    if format_.spelling is not None and format_.spelling.parameters and not is_python:
        return declared(draw, format_)  # text between tags has the declared type
    letters = [odd for odd in (*ODD, *KEYS, *WORDS, "\r", "\x7f", "\u2028", "f(x=", "true", "5")
               if not any(mark[0] in odd for mark in format_.quotes)]  # fmt: skip

    def text() -> str:
        return "".join(draw.choices(letters, k=draw.randint(0, 6)))

    def key(depth: int) -> str:
        return draw.choice(KEYS) if format_.quotes or (is_python and not depth) else text()

    def value(depth: int) -> Any:
        scalars = (None, True, False, draw.randint(-(10**20), 10**20), draw.uniform(-1, 1) * 1e9)
        kind = draw.randrange(6 if depth < 4 else 4)
        if kind < 4:
            return draw.choice(scalars) if kind < 2 else text()
        items = [value(depth + 1) for _ in range(draw.randint(0, 3))]
        return items if kind == 4 else {key(depth): item for item in items}

    schema = draw.choice(
        (None, {}, {"type": "object", "additionalProperties": draw.randrange(2) == 1})
    )
    return ("f", {key(0): value(1) for _ in range(3)}), schema


KINDS: dict[str, Callable[[random.Random, Format], Drawn]] = {
    "declared": declared,
    "one key more": one_key_more,
    "one key less": missing,
    "odd keys": odd_keys,
    "maps": maps,
    "other types": other_types,
    "like tags": like_tags,
    "no schema": no_schema,
    "nested": nested,
}


def declare(properties: dict[str, str]) -> Schema:
    """Return the schema of an object with these properties."""
    return {
        "type": "object",
        "properties": {key: {"type": type_} for key, type_ in properties.items()},
    }


def draw_openness(draw: random.Random) -> Schema:
    """Return what a schema says about keys that it does not declare."""
    return draw.choice(
        ({}, {"additionalProperties": False}, {"additionalProperties": {"type": "string"}})
    )


def draw_odd_key(draw: random.Random) -> str:
    """Return a key with characters of a syntax, perhaps empty."""
    return "".join(draw.choice((draw.choice(ODD), "k", "ab")) for _ in range(draw.randint(0, 4)))


def draw_value(draw: random.Random, type_: str) -> Any:
    """Return a value of a JSON type; a whole number is no fraction, and no switch."""
    match type_:
        case "string":
            return draw.choice(TEXTS)
        case "integer":
            return draw.choice((-1, 1)) * draw.randint(2, 10**6)
        case "number":
            return draw.randint(-999, 999) + 0.125
        case "boolean":
            return draw.randrange(2) == 1
        case "array":
            return draw.sample(WORDS, draw.randint(1, 3))
        case _:
            return {key: draw_value(draw, "integer") for key in draw.sample(("a", "b", "c"), 2)}


# Text near a format's tags.


@functools.cache
def own_tags(name: str) -> tuple[str, ...]:
    """Return the markers of a format that are tags, and the tokens within, which no prose has."""
    format_ = tool_format(name)
    assert format_ is not None
    markers = {marker for by_marker in format_.states.values() for marker in by_marker}
    markers |= {*filter(None, [format_.tag_prefix]), *PARTS.findall("".join(markers))}
    return tuple(sorted(m.strip() for m in markers if re.search(r"[<\[｜].*\w", m, re.DOTALL)))


@functools.cache
def own_tag(name: str) -> re.Pattern[str]:
    """Return what finds one of a format's own tags, spelled exactly."""
    return re.compile(
        "|".join(
            re.escape(tag) + (r"(?!\w)" if tag[-1].isalnum() else "")
            for tag in sorted(own_tags(name), key=len, reverse=True)
        )
        or "(?!)"
    )


def without_own_tags(text: str, format_: Format) -> str:
    """Return a text without the format's own tags, where these end or begin what it holds."""
    if format_.spelling is None or not format_.spelling.parameters:
        return text  # JSON's strings may hold them
    while own_tag(format_.name).search(text):
        text = own_tag(format_.name).sub("", text)
    return text


def draw_near_tag(draw: random.Random, format_: Format) -> str:
    """Return one of the format's tags with a change."""
    tag = draw.choice(own_tags(format_.name) or FOREIGN_TAGS)
    end = re.search(r"\W*\Z", tag)
    body = tag[: end.start()] if end is not None else tag
    rest = tag[len(body) :]
    at = draw.randrange(len(tag))
    return draw.choice(
        (
            f"{body}s{rest}",
            tag[:-1],
            tag[1:],
            tag.upper() if tag.upper() != tag else tag.lower(),
            tag[:at] + "x" + tag[at + 1 :],
            tag[:at] + tag[at + 1 :],
            tag[:at] + " " + tag[at:],
            f"{body} x='y'{rest}",
            f"{body}_{rest}",
        )
    )


# Writing and reading.


def can_write(format_: Format, arguments: dict[str, Any]) -> bool:
    """Whether the format's syntax can express the keys."""
    return all(_can_write_key(format_, key) for key in arguments)


def _can_write_key(format_: Format, key: str) -> bool:
    states = format_.states
    if format_.quotes:
        return bool(key.strip()) and key == key.strip() and not re.search(r"[:,{}\[\]<>\"'\n]", key)
    if PYTHON_STATES & states.keys():
        return key.isidentifier() and not keyword.iskeyword(key)
    if State.ELEMENTS in states:
        return bool(key) and key[0] != "/" and not re.search("[<>]", key)
    if format_.spelling is None or not format_.spelling.parameters:
        return True
    if State.HEADER in states and State.KEY not in states:
        return not re.search('["<>]', key)
    before = {spelt.partition("{key}")[0][-1:] for spelt in format_.spelling.parameters.values()}
    quotes = before & {'"', "'"}
    ends = {end for end in states.get(State.KEY, ()) if not quotes or end[0] in quotes | {"<"}}
    return not any(end in key for end in ends) and key[:1] not in {"<", *quotes}


def wellformed(family: Family, number: int, seed: int = 0) -> Iterator[WellFormed]:
    """Yield `number` calls of each kind, drawn at random, as the family writes them."""
    format_ = tool_format(family.name)
    assert format_ is not None
    draw = random.Random(f"{family.name} {seed}")
    for kind in KINDS:
        for _ in range(number):
            if (case := draw_case(draw, family, format_, kind)) is not None:
                yield case


def draw_case(draw: random.Random, family: Family, format_: Format, kind: str) -> WellFormed | None:
    """Return a call of a kind as the family writes it; None if its syntax cannot express it."""
    assert family.write is not None
    call, schema = KINDS[kind](draw, format_)
    if not can_write(format_, call[1]):
        return None
    return WellFormed(family.name, kind, call, schema, family.write("", [call]))


def judge(
    case: WellFormed, events: Sequence[Event], write: Callable[[str, Sequence[Invocation]], str]
) -> Class:
    """Return what a client got of a well-formed call: RIGHT, OPEN, TEXT or WRONG."""
    shown = read_shown(events)
    calls = [
        (name, read_object(text)) for name, text in zip(shown.names, shown.arguments, strict=True)
    ]
    if not calls:
        return Class.TEXT
    if shown.still_open or any(arguments is None for _, arguments in calls):
        return Class.OPEN
    got = [(name, arguments or {}) for name, arguments in calls]
    is_right = (
        json.dumps(got, sort_keys=True) == json.dumps([case.call], sort_keys=True)
        or write("", got) == case.output
        or _is_converted(case.call, got)
    )
    more = shown.text.strip()
    has_end = case.ends_turn and case.output.rstrip().endswith(more)
    return Class.RIGHT if is_right and (not more or has_end) else Class.WRONG


def _is_converted(call: Invocation, got: Sequence[Invocation]) -> bool:
    """Whether strings alone differ, which were read as the declared type."""
    if len(got) != 1 or got[0][0] != call[0] or got[0][1].keys() != call[1].keys():
        return False
    return all(
        value == call[1][key] or (isinstance(call[1][key], str) and _spells(call[1][key], value))
        for key, value in got[0][1].items()
    )


def _spells(text: str, value: Any) -> bool:
    try:
        return bool(json.loads(text) == value)
    except ValueError:
        return False
