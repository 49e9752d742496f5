"""Formats whose text stands in channels: headers are never shown, whatever a request asks for."""

from __future__ import annotations

import functools
import re

import pytest
from backedge.parsers.base import ParserNames, ParserRequest
from backedge.parsers.events import Content, Event, Reasoning, join
from backedge.parsers.formats.catalog import FORMATS
from backedge.parsers.linear_parsers import Vocabulary
from backedge.parsers.parser_lookup import linear_parsers
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.samples.tokenizers import encode
from tests.conformance.peers import load_tokenizer
from tests.parsers.event_outcome import join_outcome
from tests.parsers.families import FAMILIES, beam, inkling, kimi_k3, muse_glimmer, openai
from tests.parsers.families.family import TOOLS
from tests.parsers.families.kimi_k3 import element
from tests.parsers.fuzzing import fuzz
from tests.parsers.sample_model import (
    SampleModel,
    cached_linear_parsers,
    every_token,
    feed_tokens,
)
from tests.support import params

ANSWER = f"{openai.ANALYSIS}So.<|end|>{openai.TURN}{openai.FINAL}Hi.<|end|>"
CHANNELS = {
    "beam": (ANSWER, openai.TURN + beam.call("search", "")),
    "inkling": (
        "<|content_thinking|>So.<|end_message|><|message_model|><|content_text|>Hi.<|end_message|>",
        "<|content_invoke_tool_json|>{}<|end_message|>",
    ),
    "kimi_k3": (element("think", "So.") + kimi_k3.write("Hi.", ()), kimi_k3.NOW),
    "muse_glimmer": (
        " to=self<|message|>So.<|eom|><|start|>assistant to=user<|message|>Hi.<|eom|>",
        '<|start|>assistant to=f<|message|><atem:invoke name="f"></atem:invoke><|eot|>',
    ),
    "openai": (
        ANSWER,
        "<|start|>assistant<|channel|>commentary to=browser.search<|message|>{}<|call|>",
    ),
}


text_parsers = functools.cache(lambda names: linear_parsers(names, Vocabulary()))
TEXTS = st.from_regex(
    re.compile(r"[A-Z][a-z0-9 ,.!?'(){}=\n]{0,40}[a-z.]", re.ASCII), fullmatch=True
)


def read(
    name: str, names: ParserNames, output: str, *, tools: bool, choice: str = "auto"
) -> list[Event]:
    tokenizer = load_tokenizer(ParserNames(name, name))
    request = ParserRequest(tools=list(TOOLS) if tools else [], tool_choice=choice)
    parser = cached_linear_parsers(names, tokenizer)(request, [])
    return join(feed_tokens(parser, tokenizer, output) + parser.finish())


def test_each_format_with_channels_has_a_case() -> None:
    assert {format_.name for format_ in FORMATS if format_.has_channels} == CHANNELS.keys()
    assert CHANNELS.keys() <= FAMILIES.keys()


@pytest.mark.parametrize("tools", [False, True])
@pytest.mark.parametrize("parsers", ["tool_call", "reasoning", "both"])
@pytest.mark.parametrize("name", CHANNELS)
@fuzz(15)
@given(thought=TEXTS, answer=TEXTS, choice=st.sampled_from(["auto", "none", "required"]))
def test_headers_are_not_shown(
    name: str, parsers: str, tools: bool, thought: str, answer: str, choice: str
) -> None:
    names = ParserNames(
        name if parsers != "reasoning" else None, name if parsers != "tool_call" else None
    )
    text = CHANNELS[name][0].replace("So.", thought).replace("Hi.", answer)
    events = read(name, names, text, tools=tools, choice=choice)
    assert events == [Reasoning(thought), Content(answer)]


@pytest.mark.parametrize("name", CHANNELS)
def test_what_is_addressed_to_a_tool_is_dropped_without_tools(name: str) -> None:
    text, call = CHANNELS[name]
    shown = read(name, ParserNames(name, name), text + call, tools=False)
    assert shown == [Reasoning("So."), Content("Hi.")]


@pytest.mark.parametrize(
    ("header", "dropped"),
    [
        ("commentary to=python code", 1),
        ("commentary to=container.exec", 1),
        ("analysis to=python code", 0),
        ("commentary to=assistant", 0),
        ("commentary to=functions.write", 0),
    ],
)
def test_calls_of_the_server_s_own_tools_are_counted(header: str, dropped: int) -> None:
    tokenizer = load_tokenizer(ParserNames("openai", "openai"))
    request = ParserRequest(tools=list(TOOLS), tool_choice="auto")
    parser = cached_linear_parsers(ParserNames("openai", "openai"), tokenizer)(request, [])
    output = f"<|channel|>{header}<|message|>{{}}<|call|>"
    events = feed_tokens(parser, tokenizer, output) + parser.finish()
    assert parser.dropped_calls == dropped
    assert not any(isinstance(event, Content) for event in events)


def test_a_dropped_call_is_counted_beside_others() -> None:
    names = ParserNames("openai", "openai")
    tokenizer = load_tokenizer(names)
    request = ParserRequest(tools=list(TOOLS), tool_choice="auto")
    parsers = cached_linear_parsers(names, tokenizer)
    model = SampleModel(tokenizer, parsers, params(prompt_length=0, parser=request), [])
    own_call = f"{openai.TURN}<|channel|>commentary to=python<|message|>1<|call|>"
    model.run(every_token(encode(tokenizer, openai.call("now", "{}", "<|end|>") + own_call)))
    assert model.post.choices[0].calls == ["complete", "dropped"]


# Headers of calls whose message is none, with the text in front and behind it; a header's words
# begin with "zz" or are the format's own.
NAMES = st.sampled_from(["write", "zzundeclared", "zz.zz", "functions.zz", "zz" * 150, "functions"])
WORDS = st.lists(st.sampled_from(["json", "code", "zzcode"]), max_size=1).map(" ".join)


def harmony_headers(*, constrained: str) -> st.SearchStrategy[str]:
    channel, constraint = "<|channel|>commentary", f"<|constrain|>{constrained}"
    return st.tuples(NAMES, WORDS, st.booleans()).flatmap(
        lambda drawn: st.sampled_from(
            [
                f"{channel} to=functions.{drawn[0]} {drawn[1]}<|message|>",
                f"{channel} to={drawn[0]} {constraint}<|message|>",
                f" to={drawn[0]}{channel} {drawn[1]}<|message|>",
                f" to={drawn[0]}{channel}{constraint}<|message|>",
            ]
        )
    )


# By format: the rejected call's header, what ends its message, and an answer after it.
REJECTED: dict[str, tuple[st.SearchStrategy[str], str, str]] = {
    "beam": (harmony_headers(constrained="xml"), "<|end|>", openai.TURN + openai.FINAL + "Bye."),
    "inkling": (
        st.sampled_from(["", "zzwrite", "zz.zz"]).map(lambda name: name + inkling.CALL),
        inkling.END,
        inkling.MESSAGE + inkling.TEXT + "Bye.",
    ),
    "kimi_k3": (
        st.tuples(NAMES, st.sampled_from(['"1"', "1", '"zz"'])).map(
            lambda drawn: f'<|open|>call tool="{drawn[0]}" index={drawn[1]}<|sep|>'
        ),
        "<|close|>call<|sep|>",
        f"{kimi_k3.RESPONSE}Bye.",
    ),
    "muse_glimmer": (
        NAMES.map(lambda name: f" to={name}<|message|>"),
        "<|eom|>",
        muse_glimmer.TURN + muse_glimmer.USER + "Bye.",
    ),
    "openai": (harmony_headers(constrained="json"), "<|end|>", openai.TURN + openai.FINAL + "Bye."),
}


@pytest.mark.parametrize("name", REJECTED)
@pytest.mark.parametrize("by_token", [True, False])
@given(data=st.data(), message=st.sampled_from(["hello there", "[1, 2]", "say x = 1"]))
def test_a_rejected_calls_header_is_not_shown_and_its_message_is(
    name: str, by_token: bool, data: st.DataObject, message: str
) -> None:
    header, end, answer = REJECTED[name]
    output = data.draw(header) + message + end + answer
    names = ParserNames(name, FAMILIES[name].reasoning_parser)
    if by_token:
        events = read(name, names, output, tools=True)
    else:
        request = ParserRequest(tools=list(TOOLS), tool_choice="auto")
        parser = text_parsers(names)(request, [])
        events = join(parser.feed(output) + parser.finish())
    outcome = join_outcome(events)
    assert not outcome.calls
    shown = (outcome.reasoning or "") + (outcome.content or "")
    assert shown.replace("\n", "") == message + "Bye."


def test_every_format_with_channels_has_rejected_headers() -> None:
    assert REJECTED.keys() == CHANNELS.keys()
