"""Reasoning, calls and the request together: rules for every pair of parsers, as tables.

Each case is written once, in parts, and rendered in the syntax of each pair; it is read as
text, whole and by character, and as tokens through the post-processor, in one chunk and one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from backedge.parsers.base import ParserNames, ParserRequest
from backedge.parsers.events import Event
from backedge.parsers.forced_calls import wrap_forced_calls
from backedge.parsers.linear_parsers import Vocabulary
from backedge.parsers.parser_lookup import linear_parsers, tool_format
from backedge.postprocess import DetokenizerOptions, PostprocessParams
from backedge.tokenization.detokenizer import read_vocabulary

from benchmarks.samples.sample import Outcome
from benchmarks.samples.tokenizers import bpe, encode
from tests.parsers import driver
from tests.parsers.event_outcome import join_outcome
from tests.parsers.interplay import (
    CALL_X,
    CALL_Y,
    CLOSED,
    HERMES,
    NONE,
    PAIRS,
    REASONING_OPENED,
    RULES,
    THINK,
    Invoke,
    Pair,
    Rule,
    Text,
    Think,
    X,
)
from tests.parsers.invariants import check_deltas
from tests.parsers.sample_model import (
    SampleModel,
    as_one,
    cached_linear_parsers,
    cut,
    every_token,
    read_outcome,
)

ROWS = [
    pytest.param(rule, pair, id=f"{rule.id}-{pair.id}") for rule in RULES for pair in rule.pairs
]
every_rule = pytest.mark.parametrize(("rule", "pair"), ROWS)


def by_text(rule: Rule, pair: Pair, size: int) -> list[Event]:
    """Return the joined events of a parser without tokens, fed `size` characters at a time."""
    prompt = pair.prompt(rule.prompt)
    turn = prompt[prompt.rfind(pair.turn[0]) :]
    parsers = linear_parsers(
        ParserNames(pair.tools, pair.reasoning), Vocabulary(decode=lambda _: turn)
    )
    request = rule.parser_request()
    parser = wrap_forced_calls(parsers(request, [0]), request)
    return driver.run(parser, driver.cut(rule.output(pair), size), cut=rule.finish == "length")


def build_model(rule: Rule, pair: Pair, *, special: bool = False) -> SampleModel:
    """Return a model with linear parsers. special: the markers are special tokens, and hidden."""
    tokenizer = pair.tokenizer(special=special)
    parsers: Any = cached_linear_parsers(ParserNames(pair.tools, pair.reasoning), tokenizer)
    prompt = encode(tokenizer, pair.prompt(rule.prompt))
    params = PostprocessParams(
        response_id="chatcmpl-1",
        created=1,
        model="m",
        prompt_length=len(prompt),
        detokenizer=DetokenizerOptions(
            skip_special_tokens=True, spaces_between_special_tokens=False
        ),
        parser=rule.parser_request(),
    )
    return SampleModel(tokenizer, parsers, params, prompt)


@every_rule
def test_text(rule: Rule, pair: Pair) -> None:
    whole = by_text(rule, pair, 1 << 20)
    read = join_outcome(whole)
    if rule.request == NONE:  # parsers read forbidden calls; the deltas leave them out
        read = replace(read, calls=())
    assert read == rule.outcome(pair)
    assert by_text(rule, pair, 1) == whole
    assert by_text(rule, pair, 3) == whole


def show_space(rule: Rule, pair: Pair) -> Outcome:
    """Return what the client gets, with the white space before a call that no template writes."""
    expected, format_ = rule.outcome(pair, token=True), tool_format(pair.tools)
    parts = rule.parts(pair) if callable(rule.parts) else rule.parts
    spaces = [part.before for part in parts if isinstance(part, Invoke)]
    if format_ is None or not (expected.content and expected.calls and spaces):
        return expected
    [space, *_] = spaces
    for _ in range(format_.breaks_before_calls):
        space = space.removesuffix("\n")
    return replace(expected, content=expected.content + space)


@every_rule
@pytest.mark.parametrize("special", [False, True], ids=["markers", "special markers"])
def test_tokens(rule: Rule, pair: Pair, special: bool) -> None:
    if special and not rule.as_special:
        pytest.skip("special tokens do not show in text")
    model = build_model(rule, pair, special=special)
    token_ids = encode(
        model.tokenizer, rule.output(pair) + (pair.end if rule.finish == "stop" else "")
    )
    for cuts in (range(len(token_ids)), ()):
        whole = model.run(cut(token_ids, cuts, rule.finish))
        expected = show_space(rule, pair)
        assert read_outcome(whole) == expected
        assert whole.finish_reason == (
            "tool_calls" if expected.calls and rule.finish == "stop" else rule.finish
        )
        assert model.failures == []
        check_deltas(model)


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.id)
@pytest.mark.parametrize("cutter", [every_token, as_one], ids=["by token", "whole"])
def test_without_parallel_calls_the_first_is_the_last(
    pair: Pair, cutter: Callable[..., Any]
) -> None:
    rule = Rule(
        "one call only",
        (Think("One."), Text("Two."), CALL_X, CALL_Y),
        Outcome("One.", "Two.", (X,)),
        request={"parallel_tool_calls": False},
    )
    model = build_model(rule, pair)
    whole = model.run(cutter(encode(model.tokenizer, rule.output(pair) + pair.end)))
    assert read_outcome(whole) == rule.outcome(pair)
    assert whole.finish_reason == "tool_calls"
    assert model.post.choices[0].ended_early


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.id)
def test_a_call_that_is_cut_is_content_without_a_stream(pair: Pair) -> None:
    rule = Rule("cut in a call", (Think("One."), Invoke({"a": "xyz"})), Outcome(), finish="length")
    model = build_model(rule, pair)
    output = rule.output(pair)
    token_ids = encode(model.tokenizer, output[: output.rindex("xyz") + 2])
    whole = model.run(cut(token_ids, range(len(token_ids)), "length"))
    assert (whole.delta.reasoning_content, whole.delta.tool_calls) == ("One.", [])
    content = (whole.delta.content or "").replace(" ", "")
    assert content == '{"name":"f","arguments":{"a":"xy'
    assert whole.finish_reason == "length"


# Parser, chat_template_kwargs, the prompt's end: whether text without a tag is reasoning.
FLAGS: tuple[tuple[str, dict[str, bool], str, bool], ...] = (
    ("qwen3", {}, "", True),
    ("qwen3", {"enable_thinking": True}, "", True),
    ("qwen3", {"enable_thinking": False}, "", False),
    ("qwen3", {"enable_thinking": True}, CLOSED, False),
    ("qwen3", {"enable_thinking": False}, REASONING_OPENED, True),
    ("mimo", {"enable_thinking": False}, "", False),
    ("nemotron_v3", {}, "", True),
    ("step3p5", {}, "", True),
    ("deepseek_r1", {}, "", True),
    ("deepseek_r1", {"enable_thinking": False}, "", True),
    ("deepseek_r1", {}, CLOSED, False),
    ("holo2", {}, "", True),
    ("holo2", {"thinking": False}, "", False),
    ("holo2", {"enable_thinking": False}, "", False),
    ("holo2", {"thinking": False, "enable_thinking": True}, "", True),
    ("deepseek_v3", {}, "", False),
    ("deepseek_v3", {"thinking": True}, "<think>", True),
    ("deepseek_v3", {}, "</think>", False),
    ("olmo3", {}, "", False),
    ("olmo3", {}, "<think>", True),
    ("kimi", {}, "", False),
    ("granite_thinking_parser", {"enable_thinking": False}, "", False),
)


@pytest.mark.parametrize(("name", "kwargs", "ending", "reasons"), FLAGS)
def test_flags_and_prompts(name: str, kwargs: dict[str, bool], ending: str, reasons: bool) -> None:
    request = ParserRequest(chat_template_kwargs=kwargs)
    for vocabulary, prompt in (
        (Vocabulary(decode=lambda _: ending), [0]),
        (read_vocabulary(bpe(THINK)), encode(bpe(THINK), HERMES.user + HERMES.turn[0] + ending)),
    ):
        parser = linear_parsers(ParserNames(reasoning=name), vocabulary)(request, prompt)
        assert parser.in_reasoning == reasons
        events = parser.feed("It is 42.") + parser.finish()
        assert join_outcome(events) == (
            Outcome("It is 42.") if reasons else Outcome(None, "It is 42.")
        )
