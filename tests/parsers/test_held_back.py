"""Text that waits: why, its end and its length; a parser gives it out when the output ends."""

from __future__ import annotations

import copy
from typing import get_args

import pytest
from backedge.base.limits import MAX_SHOWN_HELD
from backedge.parsers.base import ParserNames
from backedge.parsers.events import Content, Reasoning, ToolCallStarted
from backedge.parsers.format import TEXT_STATES
from backedge.parsers.held_back import EXPLANATIONS, HeldText, Why, hold, hold_pieces
from backedge.parsers.linear_parsers import Vocabulary
from backedge.parsers.machine import LinearParser
from backedge.parsers.parser_lookup import linear_parsers
from backedge.tokenization.detokenizer import DetokenizerOptions, read_vocabulary

from tests.support import TRANSCRIPTS, encode, parser_request, tiny_detokenizers, tiny_tokenizer


def test_every_reason_is_explained() -> None:
    assert set(EXPLANATIONS) == set(get_args(Why))


def test_nothing_is_held_of_an_empty_text() -> None:
    assert hold("white space", "") == []
    assert hold_pieces("native parser", [], 0) == []


def test_the_end_of_a_long_text_is_kept() -> None:
    text = "a" * MAX_SHOWN_HELD + "b"
    assert hold("possible call", text) == [
        HeldText("possible call", "a" * (MAX_SHOWN_HELD - 1) + "b", MAX_SHOWN_HELD + 1)
    ]


@pytest.mark.parametrize("count", [1, 3, MAX_SHOWN_HELD, 1000])
def test_pieces_are_as_their_text(count: int) -> None:
    pieces = [f"{number} " for number in range(count)]
    text = "".join(pieces)
    assert hold_pieces("native parser", reversed(pieces), len(text)) == hold("native parser", text)


def test_no_more_pieces_are_read_than_are_shown() -> None:
    pieces = iter(["x" * MAX_SHOWN_HELD, "y", "z"])
    hold_pieces("native parser", pieces, MAX_SHOWN_HELD + 2)
    assert list(pieces) == ["y", "z"]


def test_a_piece_of_which_a_part_is_gone_shows_the_rest() -> None:
    assert hold_pieces("possible stop string", ["de", "abc"], 3)[0].text == "cde"


TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "f",
            "parameters": {
                "type": "object",
                "properties": {"n": {"type": "integer"}, "s": {"type": "string"}},
            },
        },
    }
]
# The output, and why its end waits.
WAITING = [
    ("hermes", "an answer", []),
    ("hermes", "an answer <tool", ["possible marker"]),
    ("hermes", " ", ["white space"]),
    ("hermes", " \n", ["white space", "possible marker"]),
    ("hermes", 'a<tool_call>{"name": "f', ["possible call"]),
    ("hermes", 'a<tool_call>{"name": "f", "arguments": {"s": "x', []),
    ("hermes", 'a<tool_call>{"name": "f", "arguments": {"n": "5', ["unfinished value"]),
    ("hermes", 'a<tool_call>{"name": "f", "arguments": {"n": tr', ["unfinished value"]),
    ("qwen3_coder", "<tool_call><function=f", ["possible call"]),
    ("qwen3_coder", "<tool_call><function=f><parameter=n", ["unfinished name"]),
    ("qwen3_coder", "<tool_call><function=f><parameter=n>5", ["unfinished value"]),
    ("qwen3_coder", "<tool_call><function=f><parameter=s>text\n", ["possible marker"]),
    ("pythonic", "[f(n=(1", ["unfinished value"]),
]


def build(name: str) -> LinearParser:
    parser = linear_parsers(ParserNames(name), Vocabulary())(
        parser_request({"tools": TOOLS, "tool_choice": "auto"}), ()
    )
    assert isinstance(parser, LinearParser)
    return parser


@pytest.mark.parametrize(("name", "output", "reasons"), WAITING)
def test_the_reason_is_named(name: str, output: str, reasons: list[str]) -> None:
    parser = build(name)
    for char in output:
        parser.feed(char)
    assert [held.why for held in parser.held] == reasons


def test_what_waits_before_a_call_ends_with_what_was_written() -> None:
    parser = build("hermes")
    parser.feed('a<tool_call>{"name": "f')
    assert [held.text for held in parser.held] == ['<tool_call>{"name": "f']


def test_a_marker_in_an_open_string_is_undecided() -> None:
    names = ParserNames("hermes")
    request = parser_request({"tools": TOOLS, "tool_choice": "auto"})
    parser = linear_parsers(names, read_vocabulary(tiny_tokenizer()))(request, ())
    detokenizer = tiny_detokenizers()(DetokenizerOptions(skip_special_tokens=False), ())
    for token_id in encode('<tool_call>{"name": "f", "arguments": {"s": "see </tool_call> a'):
        parser.feed(detokenizer.feed(token_id), (token_id,))
    assert isinstance(parser, LinearParser)
    assert [(held.why, held.text) for held in parser.held] == [
        ("marker in a string", "</tool_call> a")
    ]


@pytest.mark.parametrize("name", sorted(TRANSCRIPTS))
def test_text_that_waits_is_what_the_end_of_the_output_gives_out(name: str) -> None:
    """In text, a parser holds something back exactly if the end of the output frees something."""
    transcript = TRANSCRIPTS[name]
    factory = linear_parsers(ParserNames("hermes", "qwen3"), read_vocabulary(tiny_tokenizer()))
    parser = factory(parser_request(transcript), ())
    detokenizer = tiny_detokenizers()(DetokenizerOptions(), ())
    assert isinstance(parser, LinearParser)
    has_calls = False
    for token_id in encode(transcript["output"]):
        events = parser.feed(detokenizer.feed(token_id), (token_id,))
        has_calls = has_calls or any(isinstance(event, ToolCallStarted) for event in events)
        if parser.state in TEXT_STATES:
            freed = copy.deepcopy(parser).finish()
            texts = [event.text for event in freed if isinstance(event, Content | Reasoning)]
            held = "".join(part.text for part in parser.held)
            after_call = has_calls and not held.strip()
            assert "".join(texts) == ("" if after_call else held)
