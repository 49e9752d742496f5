"""The linear parsers of one model: what the vocabulary and the end of the prompt decide."""

from __future__ import annotations

import pytest
from backedge.base.errors import UnusableParserError
from backedge.parsers.base import ParserNames, ParserRequest
from backedge.parsers.linear_parsers import Vocabulary
from backedge.parsers.machine import LinearParser
from backedge.parsers.parser_lookup import (
    linear_parsers,
)
from backedge.parsers.passthrough import PassthroughParser

from benchmarks.samples.sample import Call, Outcome
from tests.parsers.event_outcome import join_outcome

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


SUFFIXED = ("<think:a1>", "</think:a1>", "<tool_calls:a1>", "</tool_calls:a1>", "<tool_call:a1>",
            "</tool_call:a1>", "<tool_sep:a1>", "<arg_key:a1>", "</arg_key:a1>", "<arg_value:a1>",
            "</arg_value:a1>")  # fmt: skip
PLAIN = tuple(marker.replace(":a1", "") for marker in SUFFIXED)


@pytest.mark.parametrize(
    ("markers", "written"),
    [(SUFFIXED, SUFFIXED), (PLAIN, PLAIN), ((*PLAIN, *SUFFIXED), PLAIN), ((), PLAIN)],
    ids=["with suffix", "without", "both", "as text"],
)
def test_a_checkpoint_may_add_a_suffix_to_its_markers(
    markers: tuple[str, ...], written: tuple[str, ...]
) -> None:
    ids = {marker: token for token, marker in enumerate(markers, start=1)}
    parsers = linear_parsers(ParserNames("hy_v3", "hy_v3"), Vocabulary(ids))
    parser = parsers(ParserRequest(tools=TOOLS, tool_choice="auto"), [])
    start, end, calls, calls_end, call, call_end, separator, key, key_end, value, value_end = (
        written
    )
    pieces = (start, "So.", end, "I call.", calls, call, "f", separator, key, "a", key_end, value,
              "x", value_end, call_end, calls_end)  # fmt: skip
    events = [event for piece in pieces for event in parser.feed(piece, [ids.get(piece, 0)])]
    assert join_outcome(events + parser.finish()) == Outcome(
        "So.", "I call.", (Call("f", {"a": "x"}),)
    )


def test_reasoning_that_stays_in_the_content_is_read_for_calls() -> None:
    parsers = linear_parsers(ParserNames("hermes", "minimax_m2_append_think"), Vocabulary())
    parser = parsers(ParserRequest(tools=TOOLS, tool_choice="auto"), [])
    events = [
        event
        for char in 'So.</think>Yes.<tool_call>{"name": "f"}</tool_call>'
        for event in parser.feed(char)
    ]
    assert join_outcome(events + parser.finish()) == Outcome(
        None, "<think>So.</think>Yes.", (Call("f", {}),)
    )
    assert parser.reasoning_tokens == 0


@pytest.mark.parametrize("end", ["</｜DSML｜invoke>", "</｜DSML｜tool_calls>"])
def test_an_end_that_has_a_token_and_no_beginning_is_dropped(end: str) -> None:
    ids = {"｜DSML｜": 1}
    parsers = linear_parsers(ParserNames("deepseek_v4", "deepseek_v4"), Vocabulary(ids))
    parser = parsers(ParserRequest(tools=TOOLS, tool_choice="auto"), [])
    slash, token, name = end.partition("｜DSML｜")
    events = [
        event
        for piece in ("Done. ", slash, token, *name, "Really.")
        for event in parser.feed(piece, [ids.get(piece, 0)])
    ]
    assert join_outcome(events + parser.finish()) == Outcome(None, "Done. Really.")
