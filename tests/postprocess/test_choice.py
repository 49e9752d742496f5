"""Tokens read in runs give exactly what they give one at a time, `reasoning_tokens` included."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from backedge.base.errors import UnusableParserError
from backedge.parsers.base import ParserRequest, StreamParser
from backedge.parsers.events import Content, Event, join
from backedge.parsers.format import Format
from backedge.parsers.formats.catalog import FORMATS
from backedge.parsers.formats.qwen3 import QWEN3
from backedge.parsers.linear_parsers import LinearParsers, Vocabulary
from backedge.parsers.machine import LinearParser
from backedge.parsers.parser_lookup import linear_parsers, uses_native
from backedge.postprocess import Chunk, Usage
from backedge.postprocess.messages import ChoiceDelta
from backedge.tokenization.detokenizer import read_vocabulary
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks.samples.sample import ADD_NOTE
from benchmarks.samples.tokenizers import bpe
from tests.parsers.cases import CASES, Case
from tests.parsers.sample_model import (
    SampleModel,
    build_model,
    build_parsers,
    cut,
    encode_output,
    every_token,
)
from tests.support import encode, message, params, run, tiny_parsers

runs_settings = settings(
    max_examples=200,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
LINEAR = {case.id: case for case in CASES.values() if not uses_native("auto", case.names)}
cuts = st.sets(st.integers(1, 120), max_size=12)


def without_markers(case: Case) -> Case:
    """Return the case for a vocabulary where its markers are ordinary text, of several tokens."""
    return replace(case, sample=replace(case.sample, markers=(), special=()))


def is_usable(case: Case) -> bool:
    try:
        linear_parsers(case.names, read_vocabulary(bpe()))
    except UnusableParserError:
        return False
    return True


VOCABULARIES = ("token markers", "text markers")


@functools.cache
def list_cases(vocabulary: str) -> dict[str, Case]:
    if vocabulary == "token markers":
        return LINEAR
    return {
        key: without_markers(case)
        for key, case in LINEAR.items()
        if case.sample.tokenizer == "bpe" and is_usable(case)
    }


@functools.cache
def choose_model(vocabulary: str, name: str) -> SampleModel:
    case = list_cases(vocabulary)[name]
    return build_model(case.sample, build_parsers(case.sample, case.names, "linear"))


def normal(whole: ChoiceDelta) -> tuple[dict[str, Any], Any, Any]:
    """Return what does not depend on chance, as the ids of calls do."""
    return message(whole), whole.token_ids, whole.stop_reason


def result(model: SampleModel, chunks: Sequence[Chunk]) -> tuple[Any, Usage, int]:
    whole = model.run(chunks)
    assert model.failures == []
    return normal(whole), model.post.usage, model.post.choices[0].tokens


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
@runs_settings
@given(data=st.data(), cuts=cuts)
def test_any_run_of_a_sample(vocabulary: str, data: st.DataObject, cuts: Collection[int]) -> None:
    name = data.draw(st.sampled_from(list(list_cases(vocabulary))))
    model = choose_model(vocabulary, name)
    token_ids = encode_output(model, list_cases(vocabulary)[name].sample)
    length = data.draw(st.sampled_from([len(token_ids)]) | st.integers(1, len(token_ids)))
    reason = "stop" if length == len(token_ids) else "length"
    one_by_one = result(model, cut(token_ids[:length], range(length), reason))
    assert result(model, cut(token_ids[:length], cuts, reason)) == one_by_one
    assert result(model, cut(token_ids[:length], (), reason)) == one_by_one


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
def test_every_run_of_two_tokens_in_every_sample(vocabulary: str) -> None:
    for name, case in list_cases(vocabulary).items():
        model = choose_model(vocabulary, name)
        token_ids = encode_output(model, case.sample)
        one_by_one = result(model, every_token(token_ids))
        for first in (0, 1):
            found = result(model, cut(token_ids, range(first, len(token_ids), 2)))
            assert found == one_by_one, f"{name}, pairs from token {first} on"


REQUESTS: dict[str, dict[str, Any]] = {
    "one call only": {"parser": {"parallel_tool_calls": False}},
    "hidden reasoning": {"parser": {"include_reasoning": False}},
    "token ids": {"return_token_ids": True},
    "a stop string": {"stop": ["sum", "Olé"]},
    "no stream": {"stream": False},
}


@pytest.mark.parametrize("fields", REQUESTS.values(), ids=REQUESTS)
@settings(runs_settings, max_examples=100)
@given(data=st.data(), cuts=cuts)
def test_what_else_the_request_asks_for(
    fields: dict[str, Any], data: st.DataObject, cuts: Collection[int]
) -> None:
    """Some of it needs every token by itself, some of it does not."""
    vocabulary = data.draw(st.sampled_from(VOCABULARIES))
    name = data.draw(st.sampled_from(list(list_cases(vocabulary))))
    model = choose_model(vocabulary, name)
    parser = msgspec.structs.replace(model.params.parser, **fields.get("parser", {}))
    model = replace(
        model, params=msgspec.structs.replace(model.params, **{**fields, "parser": parser})
    )
    token_ids = encode_output(model, list_cases(vocabulary)[name].sample)
    assert result(model, cut(token_ids, cuts)) == result(model, every_token(token_ids))


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
@settings(runs_settings, max_examples=100)
@given(data=st.data(), cuts=cuts, min_tokens=st.integers(0, 9))
def test_a_stop_token_that_no_engine_knows(
    vocabulary: str, data: st.DataObject, cuts: Collection[int], min_tokens: int
) -> None:
    """The answer is that of an engine that stops there, and the engine is stopped."""
    name = data.draw(st.sampled_from(list(list_cases(vocabulary))))
    model = choose_model(vocabulary, name)
    token_ids = encode_output(model, list_cases(vocabulary)[name].sample)
    stop = data.draw(st.sampled_from(token_ids[:-1]))
    ends = [at for at, one in enumerate(token_ids) if one == stop and at >= min_tokens]
    *rest, last = every_token(token_ids[: ends[0] + 1] if ends else token_ids)
    if ends:
        last = msgspec.structs.replace(last, stop_reason=stop)
    expected = result(model, [*rest, last])
    fields = {"stop_token_ids": [stop], "min_tokens": min_tokens}
    model = replace(model, params=msgspec.structs.replace(model.params, **fields))
    chunks = cut(token_ids, cuts)
    assert result(model, chunks) == expected
    last_chunk = len(token_ids) - len(chunks[-1].token_ids)  # in which the engine itself ends
    assert model.post.ended_early == bool(ends and ends[0] < last_chunk)


JSON_CALLS = {
    "required": ("required", '[{"name": "add_note", "parameters": {"text": "Olé 👋"}}]'),
    "named": (
        {"type": "function", "function": {"name": "add_note"}},
        '{"text": "Olé 👋", "count": 3}',
    ),
}


@pytest.mark.parametrize(("tool_choice", "written"), JSON_CALLS.values(), ids=JSON_CALLS)
@pytest.mark.parametrize("reasoning", ["", "<think>Hm, 17.</think>\n"])
@settings(max_examples=60, deadline=None, database=None)
@given(cuts=cuts)
def test_forced_json_calls(
    tool_choice: Any, written: str, reasoning: str, cuts: Collection[int]
) -> None:
    parsers = tiny_parsers()
    parser = ParserRequest(
        tools=[ADD_NOTE],
        tool_choice=tool_choice,
        json_calls=True,
        chat_template_kwargs={"enable_thinking": bool(reasoning)},
    )
    token_ids = encode(reasoning + written + "<|im_end|>")
    one_by_one = normal(run(params(parser=parser), every_token(token_ids), parsers))
    assert one_by_one[0]["tool_calls"]
    assert normal(run(params(parser=parser), cut(token_ids, cuts), parsers)) == one_by_one


# The parser by itself, on what no model would write.

Token = tuple[str, int]
PARTS = ("think", "</", "<", "tool", "call", "|", "=", "name", "parameter")
SOUP = (
    *PARTS,
    ">",
    "/",
    "\n",
    " ",
    "a",
    "Hm. ",
    '{"name": "now", "arguments": {}}',
    '"a": 1',
    "```",
    "[",
    "]",
    "{",
    "}",
)


def build_parser(format_: Format, vocabulary: Vocabulary) -> LinearParser:
    tools = format_ if format_.parses_tools else None
    reasoning = format_ if format_.parses_reasoning else QWEN3
    parser = LinearParsers(tools, reasoning, vocabulary)(
        ParserRequest(tools=[ADD_NOTE], tool_choice="auto"), []
    )
    assert isinstance(parser, LinearParser)
    return parser


@st.composite
def soups(draw: st.DrawFn) -> tuple[Format, Vocabulary, list[Token]]:
    """Return a format, a vocabulary with some of its markers, and tokens that cut markers."""
    format_ = draw(st.sampled_from(FORMATS))
    markers = sorted(
        {
            marker
            for part in (format_, QWEN3)
            for known in part.states.values()
            for marker in known
            if marker
        }
    )
    chosen = draw(st.just(markers) | st.just([]) | st.lists(st.sampled_from(markers), unique=True))
    chosen += draw(st.lists(st.sampled_from(PARTS), unique=True, max_size=4))
    ids = {text: number for number, text in enumerate(chosen, 1)}
    hides = draw(st.booleans())
    tokens: list[Token] = []
    for piece in draw(st.lists(st.sampled_from([*markers, *markers, *SOUP]), max_size=20)):
        if piece in ids:
            tokens.append(("" if hides else piece, ids[piece]))
            continue
        edges = sorted(
            {0, len(piece), *draw(st.sets(st.integers(1, max(1, len(piece) - 1)), max_size=3))}
        )
        parts = (piece[start:end] for start, end in itertools.pairwise(edges))
        tokens += [(part, ids.get(part, 1000 + len(tokens))) for part in parts]
    return format_, Vocabulary(ids=ids, special=frozenset(ids.values())), tokens


def read(parser: LinearParser, groups: Sequence[Sequence[Token]]) -> tuple[list[Event], int]:
    """Feed each group as one if the parser reads it together, else one token at a time."""
    events: list[Event] = []
    for group in groups:
        token_ids = [token_id for _, token_id in group]
        if parser.reads_together(token_ids):
            events += parser.feed("".join(text for text, _ in group), token_ids)
        else:
            for text, token_id in group:
                events += parser.feed(text, (token_id,))
    return join(events + parser.finish()), parser.reasoning_tokens


@settings(runs_settings, max_examples=500)
@given(soup=soups(), cuts=cuts)
def test_what_the_parser_reads_together(
    soup: tuple[Format, Vocabulary, list[Token]], cuts: Collection[int]
) -> None:
    format_, vocabulary, tokens = soup
    try:
        one_by_one = read(build_parser(format_, vocabulary), [[token] for token in tokens])
    except UnusableParserError:
        return
    edges = sorted({0, len(tokens), *(position for position in cuts if position < len(tokens))})
    groups = [tokens[start:end] for start, end in itertools.pairwise(edges)]
    assert read(build_parser(format_, vocabulary), groups) == one_by_one


# Format, markers that are tokens, what comes before, and a run that is read together.
CALLS_IN_REASONING = {
    "none after all": ("phi4_mini_json", (), ("<think>", "functools ["), ("<", "/think>")),
    "one that ends": (
        "longcat",
        ("<longcat_tool_call>",),
        ("<longcat_tool_call>", "t", "{"),
        ("a", "}"),
    ),
}


@pytest.mark.parametrize(
    ("name", "markers", "before", "run"), CALLS_IN_REASONING.values(), ids=CALLS_IN_REASONING
)
def test_a_call_in_the_midst_of_reasoning(
    name: str, markers: Sequence[str], before: Sequence[str], run: Sequence[str]
) -> None:
    """Reasoning may go on behind any of its characters, so its tokens are counted one at a time."""
    format_ = next(format_ for format_ in FORMATS if format_.name == name)
    ids = {marker: number for number, marker in enumerate(markers, 1)}
    one_by_one, in_one_feed = (build_parser(format_, Vocabulary(ids=ids)) for _ in range(2))
    for parser in (one_by_one, in_one_feed):
        for number, text in enumerate(before):
            parser.feed(text, (ids.get(text, 1000 + number),))
    tokens = [(text, 2000 + number) for number, text in enumerate(run)]
    assert read(in_one_feed, [tokens]) == read(one_by_one, [[token] for token in tokens])


def test_reasoning_that_begins_two_markers_further() -> None:
    """Content leads to START, and that to reasoning, within one run."""
    cohere = next(format_ for format_ in FORMATS if format_.name == "cohere_command3")
    tokens = [("Hm.", 1), ("<|END_RESPONSE|>", 2), ("<|START_THINKING|>", 3)]
    one_by_one, in_one_feed = (build_parser(cohere, Vocabulary()) for _ in range(2))
    assert read(in_one_feed, [tokens[:1], tokens[1:]]) == read(
        one_by_one, [[token] for token in tokens]
    )


class RaisingParsers(StreamParser):
    """Parsers that read anything together, and raise where the text says so."""

    name = "raising"
    breaks_before_calls: int | None = None
    token_aligned, in_reasoning, reasoning_tokens = False, False, 0

    def shows_special_tokens(self, request: ParserRequest) -> bool:
        return False

    def __call__(self, request: ParserRequest, prompt_token_ids: Sequence[int]) -> RaisingParsers:
        return self

    def reads_together(self, token_ids: Sequence[int]) -> bool:
        return True

    def feed(self, text: str, token_ids: Sequence[int] = ()) -> list[Event]:
        if "E" in text:
            raise KeyError(text)
        return [Content(text)] if text else []

    def finish(
        self, text: str = "", token_ids: Sequence[int] = (), *, cut: bool = False
    ) -> list[Event]:
        return self.feed(text, token_ids)


@settings(max_examples=50, deadline=None, database=None)
@given(cuts=cuts)
def test_a_run_in_which_a_parser_raises_loses_nothing(cuts: Collection[int]) -> None:
    text = "one two three RAISE four five six"
    failures: list[Exception] = []
    whole = run(
        params(), cut(encode(text), cuts, "length"), RaisingParsers(), report=failures.append
    )
    assert whole.delta.content == text
    assert len(failures) == 1
