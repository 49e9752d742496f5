"""Reasoning that no parser reads: its marks are text, both of them, in every format."""

from __future__ import annotations

import pytest
from backedge.parsers.base import ParserNames, ParserRequest
from backedge.parsers.events import Content, Event
from backedge.parsers.linear_parsers import Vocabulary
from backedge.parsers.parser_lookup import linear_parsers, tool_format

from benchmarks.samples.sample import Outcome
from tests.parsers.driver import cut_tokens, run
from tests.parsers.event_outcome import join_outcome
from tests.parsers.families import FAMILIES, xlam
from tests.parsers.families.family import TOOLS, Family
from tests.parsers.families.json_objects import HI

THINKING = [
    family
    for name, family in FAMILIES.items()
    if (format_ := tool_format(name)) is not None
    and format_.parses_reasoning
    and not format_.has_channels
    and name != "solar_open"  # the end of a thought is that of any message
]


def read(
    names: ParserNames, output: str, tokens: tuple[str, ...] = (), *, are_hidden: bool = False
) -> list[Event]:
    """Return the joined events of `output`, in which `tokens` are single tokens.

    are_hidden: the tokenizer shows nothing for them, as for special tokens.
    """
    ids = {token: token_id for token_id, token in enumerate(dict.fromkeys(tokens), start=1)}
    special = frozenset(ids.values()) if are_hidden else frozenset()
    parser = linear_parsers(names, Vocabulary(ids, special))(
        ParserRequest(tools=list(TOOLS), tool_choice="auto"), []
    )
    pieces = cut_tokens(output, ids, 1)
    return run(parser, [("" if id_ and are_hidden else text, id_) for text, id_ in pieces])


@pytest.mark.parametrize("family", THINKING, ids=lambda family: family.name)
@pytest.mark.parametrize("kind", ["text", "tokens", "special tokens"])
def test_a_tool_parser_alone_shows_both_marks_of_a_thought(family: Family, kind: str) -> None:
    thought = family.write_thought("Hm.") + "Hi."
    tokens = () if kind == "text" else (*family.markers, *family.special)
    names = ParserNames(family.tool_parser)
    events = read(names, thought, tokens, are_hidden=kind == "special tokens")
    assert events == [Content(thought)]


@pytest.mark.parametrize("family", THINKING, ids=lambda family: family.name)
@pytest.mark.parametrize("kind", ["text", "tokens", "special tokens"])
def test_a_tool_parser_alone_shows_the_end_of_a_thought_that_the_prompt_opened(
    family: Family, kind: str
) -> None:
    assert family.tags is not None
    rest = f"Hm.{family.tags.end}Hi."
    tokens = () if kind == "text" else (*family.markers, *family.special)
    names = ParserNames(family.tool_parser)
    assert read(names, rest, tokens, are_hidden=kind == "special tokens") == [Content(rest)]


def test_a_reasoning_parser_that_keeps_thoughts_as_content_keeps_their_end() -> None:
    names = ParserNames("minimax_m2", "minimax_m2_append_think")
    for tokens in ((), ("<think>", "</think>")):
        assert read(names, "Hm.</think>Hi.", tokens) == [Content("<think>Hm.</think>Hi.")]


@pytest.mark.parametrize("space", ["", " ", "\n", "\n\n", "\r\n"])
@pytest.mark.parametrize("tokens", [(), ("<think>", "</think>")])
def test_xlam_keeps_both_marks_around_a_thought_in_front_of_calls(
    space: str, tokens: tuple[str, ...]
) -> None:
    output = f"<think>So.</think>{space}{xlam.HIS}"
    outcome = join_outcome(read(ParserNames("xlam"), output, tokens))
    assert outcome == Outcome(None, "<think>So.</think>", (HI,))
    with_reasoning = join_outcome(read(ParserNames("xlam", "qwen3"), output, tokens))
    assert with_reasoning == Outcome("So.", None, (HI,))


@pytest.mark.parametrize("tokens", [(), ("<think>", "</think>")])
def test_a_list_behind_xlams_thought_is_the_answer(tokens: tuple[str, ...]) -> None:
    output = "<think>So.</think>[1, 2]"
    assert read(ParserNames("xlam"), output, tokens) == [Content(output)]
    outcome = join_outcome(read(ParserNames("xlam", "qwen3"), output, tokens))
    assert outcome == Outcome("So.", "[1, 2]")
