"""Models without parsers."""

from __future__ import annotations

from backedge.parsers.base import ParserRequest
from backedge.parsers.events import Content
from backedge.parsers.passthrough import PassthroughParser, PassthroughParsers

TOOL = {"type": "function", "function": {"name": "f"}}
REQUEST = ParserRequest(tools=[TOOL], tool_choice="auto")


def test_all_text_is_content() -> None:
    parser = PassthroughParsers()(REQUEST, [1, 2])
    assert isinstance(parser, PassthroughParser)
    assert parser.feed("<tool_call>", [3]) == [Content("<tool_call>")]
    assert parser.feed("", [4]) == []
    assert parser.finish("</think>", [5], cut=True) == [Content("</think>")]


def test_no_token_is_special() -> None:
    parser = PassthroughParser()
    assert parser.reads_together([1, 2, 3])
    assert (parser.token_aligned, parser.in_reasoning) == (False, False)
    assert parser.reasoning_tokens == 0
    assert not PassthroughParsers().shows_special_tokens(REQUEST)
