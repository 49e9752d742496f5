"""Text of a string in arguments: taken without reading, and the same as if it were read."""

from __future__ import annotations

import pytest
from backedge.parsers.arguments.incremental_grammar import IncrementalGrammar
from backedge.parsers.base import ParserNames, ParserRequest
from backedge.parsers.events import Event, ToolCallArguments
from backedge.parsers.linear_parsers import Vocabulary
from backedge.parsers.parser_lookup import linear_parsers
from hypothesis import given
from hypothesis import strategies as st

from tests.parsers.driver import run

# A tool parser, and a call up to the open string and behind it.
CALLS = {
    "hermes": ('<tool_call>\n{"name": "f", "arguments": {"s": "', '"}}\n</tool_call>'),
    "llama3_json": ('{"name": "f", "parameters": {"s": "', '"}}'),
    "pythonic": ("[f(s='", "')]"),
    "olmo3": ("<function_calls>f(s=r'", "')</function_calls>"),
    "lfm2": ("<|tool_call_start|>[f(s='''", "''')]<|tool_call_end|>"),
    "gemma4": ('<|tool_call>call:f{s:<|"|>', '<|"|>}<tool_call|>'),
    "mistral": ('[TOOL_CALLS]f{"s": "', '"}'),
}
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "f",
            "parameters": {"type": "object", "properties": {"s": {"type": "string"}}},
        },
    }
]
PIECES = st.sampled_from(
    [
        "plain ",
        "\u00e9\u4f60",
        "\\n",
        "\\",
        '"',
        "'",
        "u00e9",
        "\n",
        "\r",
        "{",
        "</tool_call>",
        '<|"|>',
        "<|",
        "<",
        "]",
    ]
)


def parse(name: str, pieces: list[str]) -> list[Event]:
    parsers = linear_parsers(ParserNames(tool_call=name), Vocabulary())
    return run(parsers(ParserRequest(tools=TOOLS, tool_choice="auto"), ()), pieces)


@pytest.mark.parametrize("name", CALLS)
@given(pieces=st.lists(PIECES, max_size=8))
def test_a_string_reads_the_same_in_pieces_and_at_once(name: str, pieces: list[str]) -> None:
    before, behind = CALLS[name]
    assert parse(name, [before, *pieces, behind]) == parse(
        name, ["".join((before, *pieces, behind))]
    )


@pytest.mark.parametrize("name", CALLS)
def test_plain_text_of_a_string_is_not_read(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before, _ = CALLS[name]
    parsers = linear_parsers(ParserNames(tool_call=name), Vocabulary())
    parser = parsers(ParserRequest(tools=TOOLS, tool_choice="auto"), ())
    parser.feed(before)
    parser.feed("a")  # which the opening quote may have waited for

    def read(self: IncrementalGrammar, text: str, *_: object, **__: object) -> int:
        raise AssertionError(f"{text!r} was read")

    for kind in all_kinds(IncrementalGrammar):
        monkeypatch.setattr(kind, "read", read)
    assert parser.feed(" plain text") == [ToolCallArguments(0, " plain text")]


def all_kinds(kind: type) -> list[type]:
    """Return a class and all classes under it."""
    subclasses: list[type] = kind.__subclasses__()
    return [kind, *(found for below in subclasses for found in all_kinds(below))]


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("text", ["\\", "'\"", "\r\n", "\x07"])
def test_what_has_a_meaning_in_a_string_is_read(name: str, text: str) -> None:
    before, behind = CALLS[name]
    in_pieces = parse(name, [before, "a", *text, "b", behind])
    assert in_pieces == parse(name, [f"{before}a{text}b{behind}"])
