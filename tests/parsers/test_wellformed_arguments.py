"""Well-formed arguments pass unchanged in JSON, Python's and Gemma's syntax, whatever is declared.

A key may have any characters and need not be declared, a value may have another type than its
schema says, and required parameters may be missing: the client judges that.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from backedge.base.json_types import JsonObject
from backedge.parsers.base import ParserNames, ParserRequest
from backedge.parsers.events import Event
from backedge.parsers.linear_parsers import Vocabulary
from backedge.parsers.parser_lookup import linear_parsers, tool_format
from backedge.parsers.schema import json_type
from hypothesis import given
from hypothesis import strategies as st

from tests.parsers.arguments.reading import cut_pieces
from tests.parsers.driver import run
from tests.parsers.families import FAMILIES
from tests.parsers.families.family import Family
from tests.parsers.fuzzing import fuzz
from tests.parsers.generated import tokenize
from tests.slips.outcome import read_shown

NAME = "search"
PIECES = (
    *"'\"<>=:,;|(){}[]\n\r\t \\/.-#$+é世👋\x7f\u2028",
    *("city", "n", "arguments", "name", "parameters", "f(x=", "true", "5", NAME),
)
TEXTS = st.lists(st.sampled_from(PIECES), max_size=6).map("".join) | st.text(max_size=4)
WORDS = st.sampled_from(["city", "n", "arguments", "name", "from_", "x", "unit", "é", "name2"])
SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
)


def find_syntax(family: Family) -> str:
    """Return the syntax of a format's arguments: "json", "python" or "marked"; "" for another."""
    format_ = tool_format(family.tool_parser or "")
    if format_ is None or family.write is None:
        return ""
    written = family.write("", [(NAME, {"city": "Oslo"})])
    if format_.quotes:
        return "marked"
    return "json" if '{"city": "Oslo"}' in written else "python" if "(city='Os" in written else ""


SYNTAX = {name: syntax for name, family in FAMILIES.items() if (syntax := find_syntax(family))}


def nested(keys: st.SearchStrategy[str], texts: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    """Return any values of JSON."""
    return st.recursive(
        SCALARS | texts,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
        max_leaves=5,
    )


def drawn_arguments(name: str) -> st.SearchStrategy[JsonObject]:
    """Return arguments that the family's syntax can express."""
    syntax = SYNTAX[name]
    if syntax == "json":
        return st.dictionaries(TEXTS | WORDS, nested(TEXTS, TEXTS), max_size=4)
    if syntax == "python":
        return st.dictionaries(WORDS, nested(TEXTS, TEXTS), max_size=4)
    # A string may hold anything but its mark, a bare key no punctuation.
    format_ = tool_format(name)
    assert format_ is not None
    marks = format_.quotes
    texts = TEXTS.filter(lambda text: not any(mark[0] in text for mark in marks))
    return st.dictionaries(WORDS, nested(WORDS, texts), max_size=4)


@st.composite
def schemas(draw: st.DrawFn, arguments: JsonObject, *, bare: bool) -> JsonObject:
    """Return parameters that are strict, open, a map, or say nothing, for some of the arguments.

    A string is declared as one, since another type may convert it. bare: values without quotes
    have the declared type, so that it is their own.
    """
    known = draw(st.lists(st.sampled_from([*arguments, "city", "absent"]), unique=True))
    properties = {}
    for key in known:
        kind = json_type(arguments.get(key, ""))
        kinds = ["number" if kind == "integer" else kind]
        others = [] if bare or kind == "string" else ["string", "boolean", "array", "integer"]
        properties[key] = draw(st.sampled_from([{}, *({"type": one} for one in kinds + others)]))
    rest = draw(st.sampled_from([False, True, {}, {"description": "any"}]))
    schema: JsonObject = {"type": "object", "additionalProperties": rest}
    if draw(st.booleans()):
        schema["properties"] = properties
        schema["required"] = draw(st.lists(st.sampled_from([*properties, "absent"])))
    if draw(st.booleans()):
        del schema["additionalProperties"]
    return draw(st.sampled_from([schema, {}]))


def read(name: str, output: str, schema: JsonObject, cuts: Sequence[int]) -> list[Event]:
    """Return what a client gets, if markers are text and the output is cut at `cuts`."""
    return _read(name, [(piece, 0) for piece in cut_pieces(output, cuts)], schema, {})


def read_tokens(name: str, output: str, schema: JsonObject) -> list[Event]:
    """Return what a client gets, if markers are tokens."""
    ids = FAMILIES[name].ids
    return _read(name, tokenize(output, ids, {}), schema, ids)


def _read(
    name: str, tokens: Sequence[tuple[str, int]], schema: JsonObject, ids: dict[str, int]
) -> list[Event]:
    function = {"name": NAME, "parameters": schema}
    request = ParserRequest(tools=[{"type": "function", "function": function}], tool_choice="auto")
    parsers = linear_parsers(ParserNames(FAMILIES[name].tool_parser), Vocabulary(ids))
    return run(parsers(request, []), tokens)


@pytest.mark.parametrize("name", SYNTAX)
@fuzz(60)
@given(data=st.data())
def test_well_formed_arguments_pass_unchanged(name: str, data: st.DataObject) -> None:
    arguments = data.draw(drawn_arguments(name))
    schema = data.draw(schemas(arguments, bare=SYNTAX[name] == "marked"))
    write = FAMILIES[name].write
    assert write is not None
    output = write("", [(NAME, arguments), (NAME, arguments)])
    cuts = data.draw(st.lists(st.integers(0, len(output)), max_size=8) | st.just(range(5000)))
    for events in (read(name, output, schema, cuts), read_tokens(name, output, schema)):
        shown = read_shown(events)
        assert (shown.names, shown.still_open) == ([NAME, NAME], set())
        for text in shown.arguments:
            read_back = json.dumps(json.loads(text), sort_keys=True)
            assert read_back == json.dumps(arguments, sort_keys=True)
