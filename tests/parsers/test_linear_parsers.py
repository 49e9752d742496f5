"""The linear parsers of one model: what the vocabulary and the end of the prompt decide."""

from __future__ import annotations

import pytest
from backedge.parsers.base import ParserNames, ParserRequest
from backedge.parsers.errors import UnusableParserError
from backedge.parsers.linear_parsers import Vocabulary
from backedge.parsers.parser_lookup import (
    linear_parsers,
)
from backedge.parsers.passthrough import PassthroughParser
from backedge.parsers.state_machine import LinearParser

TOOLS = [{"type": "function", "function": {"name": "f"}}]


def test_a_format_that_the_tokenizer_cannot_write() -> None:
    with pytest.raises(
        UnusableParserError, match=r"'openai' cannot be used: .* has none of <\|message\|>"
    ):
        linear_parsers(ParserNames("openai"), Vocabulary({"<|im_end|>": 1}))


THINK = {"<think>": 1, "</think>": 2, "<|im_start|>": 3}
TOKENS = {**{token_id: text for text, token_id in THINK.items()}, 9: "a"}
VOCABULARY = Vocabulary(
    THINK, frozenset({3}), lambda token_ids: "".join(TOKENS[token] for token in token_ids)
)


@pytest.mark.parametrize(
    ("prompt", "kwargs", "reasons"),
    [
        ([3], {}, True),
        ([3], {"enable_thinking": False}, False),
        ([3, 1], {"enable_thinking": False}, True),
        ([3, 1, 9, 2], {}, False),
        ([1, 3], {"enable_thinking": False}, False),
    ],
    ids=["by default", "switched off", "opened", "closed", "of an earlier turn"],
)
def test_the_prompt_and_the_flags_open_reasoning(
    prompt: list[int], kwargs: dict[str, bool], reasons: bool
) -> None:
    parsers = linear_parsers(ParserNames(reasoning="qwen3"), VOCABULARY)
    parser = parsers(ParserRequest(chat_template_kwargs=kwargs), prompt)
    assert parser.in_reasoning is reasons


def test_a_model_without_formats_gets_a_parser_that_does_nothing() -> None:
    parsers = linear_parsers(ParserNames("hermes"), VOCABULARY)
    assert parsers.name == "hermes"
    assert isinstance(parsers(ParserRequest(), []), PassthroughParser)
    assert isinstance(parsers(ParserRequest(tools=TOOLS, tool_choice="auto"), []), LinearParser)
