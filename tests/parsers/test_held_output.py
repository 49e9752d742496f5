"""What a linear parser says it holds is what it gives out when the output ends."""

from __future__ import annotations

import copy

import pytest
from backedge.parsers.base import ParserNames
from backedge.parsers.call_rollback import MAX_MARKUP
from backedge.parsers.events import Content, Reasoning
from backedge.parsers.format import TEXT_STATES
from backedge.parsers.linear_parsers import Vocabulary
from backedge.parsers.parser_lookup import linear_parsers
from backedge.parsers.state_machine import LinearParser
from backedge.tokenization.detokenizer import DetokenizerOptions, read_vocabulary

from tests.support import TRANSCRIPTS, encode, parser_request, tiny_detokenizers, tiny_tokenizer

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
    assert parser.waiting == len("</tool_call> a") <= MAX_MARKUP


@pytest.mark.parametrize("name", sorted(TRANSCRIPTS))
def test_text_that_waits_is_what_the_end_of_the_output_gives_out(name: str) -> None:
    """In text, a parser holds something back exactly if the end of the output frees something."""
    transcript = TRANSCRIPTS[name]
    factory = linear_parsers(ParserNames("hermes", "qwen3"), read_vocabulary(tiny_tokenizer()))
    parser = factory(parser_request(transcript), ())
    detokenizer = tiny_detokenizers()(DetokenizerOptions(), ())
    assert isinstance(parser, LinearParser)
    for token_id in encode(transcript["output"]):
        parser.feed(detokenizer.feed(token_id), (token_id,))
        if parser.state in TEXT_STATES:
            freed = copy.deepcopy(parser).finish()
            texts = [event.text for event in freed if isinstance(event, Content | Reasoning)]
            held = "".join(part.text for part in parser.held)
            after_call = parser._calls.index >= 0 and not held.strip()
            assert "".join(texts) == ("" if after_call else held)
