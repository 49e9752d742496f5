"""SGLang's own parsers, each on a sample of its family, through the whole post-processor."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from backedge.base.errors import UnknownParserError, UnusableParserError
from backedge.base.server_names import find_own_name
from backedge.engines.sglang.parsers import SglangParsers
from backedge.parsers.base import ParserNames, ParserRequest
from backedge.parsers.events import (
    Event,
    Reasoning,
    ToolCallArguments,
    ToolCallStarted,
    join,
)
from backedge.parsers.forced_calls import wrap_forced_calls
from backedge.postprocess import ChoiceDelta
from hypothesis import given
from hypothesis import strategies as st
from sglang.srt.function_call.function_call_parser import FunctionCallParser
from sglang.srt.parser.reasoning_parser import ReasoningParser

from benchmarks.samples.sample import ADD_NOTE, ANSWER, NOTE_JSON, THOUGHT
from benchmarks.samples.sglang import SGLANG_REASONING, SGLANG_TOOL_CALLS
from benchmarks.samples.tokenizers import bpe, encode, load_tokenizer
from tests.engines.parsers.support import (
    SampleTests,
    case_id,
    content_of_plain_text,
    few_cuts,
    in_plain_text,
)
from tests.parsers.cases import SGLANG_CASES, SGLANG_DIFFERENCES, Case
from tests.parsers.sample_model import (
    SampleModel,
    build_case_parsers,
    build_model,
    cut,
    every_token,
)

SAMPLES = list(SGLANG_CASES.values())
PLAIN = "Hello there, olé."
TOOLS = ParserRequest(tools=[ADD_NOTE], tool_choice="auto")
# Cut inside the marker that opens reasoning, SGLang's parser returns the part as reasoning.
SHOWS_CUT_MARKERS = ("gemma4", "kimi_k3")
CALL = f'<tool_call>\n{{"name": "add_note", "arguments": {NOTE_JSON}}}\n</tool_call>'


def feed_whole(tool_call_parser: str, output: str, *, cut: bool = False) -> list[Event]:
    """Return what a whole answer in one token gives."""
    parser = SglangParsers(bpe(), ParserNames(tool_call_parser))(TOOLS, [])
    return join(parser.finish(output, [1], cut=cut))


@pytest.mark.parametrize(
    ("registered", "samples"),
    [
        (FunctionCallParser.ToolCallParserEnum, SGLANG_TOOL_CALLS),
        (ReasoningParser.DetectorMap, SGLANG_REASONING),
    ],
    ids=["tool parsers", "reasoning parsers"],
)
def test_every_name_of_sglang_has_a_sample(registered, samples):
    names = {name for name in registered if find_own_name(name) is None}
    assert {key.split()[0] for key in samples} == names


def test_every_exception_is_of_a_case():
    assert set(SGLANG_DIFFERENCES) <= set(SGLANG_CASES)


class TestSamples(SampleTests):
    differences = SGLANG_DIFFERENCES

    @pytest.fixture(params=SAMPLES, ids=case_id)
    def case(self, request: pytest.FixtureRequest) -> Case:
        found: Case = request.param
        return found

    def test_its_reasoning_is_counted(self, case: Case, model: SampleModel, whole: ChoiceDelta):
        expected = case.sample.expected.reasoning
        assert model.post.usage.reasoning_tokens == (
            len(encode(model.tokenizer, expected)) if expected else 0
        )

    @few_cuts
    @given(share=st.floats(0, 1))
    def test_what_a_limit_leaves_is_a_beginning(
        self, case: Case, model: SampleModel, whole: ChoiceDelta, share: float
    ):
        token_ids = encode(model.tokenizer, case.sample.output)
        left = model.run(
            cut(token_ids[: 1 + int(share * (len(token_ids) - 1))], (), "length")
        ).delta
        assert model.failures == []
        for call, complete in zip(left.tool_calls, whole.delta.tool_calls, strict=False):
            assert complete.function.arguments.startswith(call.function.arguments)
        if not left.tool_calls and case.names.reasoning not in SHOWS_CUT_MARKERS:
            assert (whole.delta.reasoning_content or "").startswith(left.reasoning_content or "")


@pytest.mark.parametrize("case", in_plain_text(SAMPLES), ids=case_id)
def test_plain_text_passes(case: Case):
    """A model may always answer with text alone, though tools are there."""
    assert content_of_plain_text(case, PLAIN) == PLAIN


@pytest.mark.parametrize(
    "names", [("no_such", None), (None, "no_such")], ids=["tool parser", "reasoning parser"]
)
def test_an_unknown_name_is_refused_with_the_known_ones(names: tuple[str | None, str | None]):
    with pytest.raises(
        UnknownParserError, match=r"'no_such' is not known; set it to one of: .*glm45"
    ):
        SglangParsers(bpe(), ParserNames(*names))


@pytest.mark.parametrize(
    "names",
    [*((name, None) for name in
       ("deepseekv3", "deepseekv31", "gigachat3", "gpt-oss", "kimi_k2", "minimax-m2")),
     (None, "gpt-oss")],
)  # fmt: skip
def test_a_tokenizer_that_cuts_the_markers_is_refused(names: tuple[str | None, str | None]):
    with pytest.raises(
        UnusableParserError, match="only as one token, and this model's tokenizer has none"
    ):
        SglangParsers(bpe(), ParserNames(*names))


def test_a_parser_that_raises_is_refused(monkeypatch: pytest.MonkeyPatch):
    def raises(*_: Any) -> None:
        raise RuntimeError("no such thing")

    detector = FunctionCallParser.ToolCallParserEnum["hermes"]
    monkeypatch.setattr(detector, "parse_streaming_increment", raises)
    with pytest.raises(
        UnusableParserError, match=r"'hermes' cannot be used: .*RuntimeError: no such thing"
    ):
        SglangParsers(bpe(), ParserNames("hermes"))


@pytest.mark.parametrize("name", ["qwen25", "qwen", "trinity"])
def test_two_whole_calls_in_one_token(name: str):
    assert feed_whole(name, f"{CALL}\n{CALL}") == [
        ToolCallStarted(0, "add_note"), ToolCallArguments(0, NOTE_JSON),
        ToolCallStarted(1, "add_note"), ToolCallArguments(1, NOTE_JSON),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "output"),
    [
        ("hermes", CALL),
        ("llama3", f'{{"name": "add_note", "parameters": {NOTE_JSON}}}'),
        ("mistral", f'[TOOL_CALLS] [{{"name": "add_note", "arguments": {NOTE_JSON}}}]'),
        ("mistral", f"[TOOL_CALLS]add_note[ARGS]{NOTE_JSON}"),
    ],
)
def test_a_whole_call_in_one_token(name: str, output: str):
    assert feed_whole(name, output)[:2] == [
        ToolCallStarted(0, "add_note"),
        ToolCallArguments(0, NOTE_JSON),
    ]


def test_arguments_that_a_limit_cut_stay_open():
    start = CALL[: CALL.index(", \\")]
    assert not any(
        isinstance(event, ToolCallArguments) for event in feed_whole("hermes", start, cut=True)
    )


def test_calls_are_numbered_on_in_their_ids():
    case = SGLANG_CASES["tool kimi_k2"]
    request = msgspec.structs.replace(TOOLS, history_tool_calls=2)
    parser = build_case_parsers(case)(request, [])
    tokenizer = load_tokenizer(case.sample)
    events = [
        event
        for token in encode(tokenizer, case.sample.output)
        for event in parser.feed(tokenizer.decode([token]), [token])
    ]
    assert [event.id for event in events if isinstance(event, ToolCallStarted)] == [
        "functions.add_note:2"
    ]


@pytest.mark.parametrize(
    ("forced", "output"),
    [("required", f'[{{"name": "add_note", "parameters": {NOTE_JSON}}}]'),
     ({"type": "function", "function": {"name": "add_note"}}, NOTE_JSON)],
)  # fmt: skip
def test_forced_calls_in_json(forced: Any, output: str):
    request = ParserRequest(tools=[ADD_NOTE], tool_choice=forced, json_calls=True)
    parsers = SglangParsers(bpe(), ParserNames("qwen25", "qwen3"))
    parser = wrap_forced_calls(parsers(request, []), request)
    events = parser.feed("hm") + parser.feed("</think>") + parser.finish(output)
    assert join(events) == [
        Reasoning("hm"),
        ToolCallStarted(0, "add_note"),
        ToolCallArguments(0, NOTE_JSON),
    ]


def test_special_tokens_are_shown_where_sglangs_server_shows_them():
    kimi, thought = SGLANG_REASONING["kimi_k3"], SGLANG_REASONING["qwen3"]
    assert SglangParsers(
        load_tokenizer(thought), ParserNames("qwen25", "qwen3")
    ).shows_special_tokens(TOOLS)
    assert not SglangParsers(
        load_tokenizer(thought), ParserNames("qwen25", "qwen3")
    ).shows_special_tokens(ParserRequest())
    assert SglangParsers(
        load_tokenizer(kimi), ParserNames(reasoning="kimi_k3")
    ).shows_special_tokens(ParserRequest())


def test_a_stop_string_belongs_to_the_answer():
    """Reasoning has no stop strings (pitfall 26)."""
    case = SGLANG_CASES["reasoning qwen3"]
    model = build_model(case.sample, build_case_parsers(case))
    model.params = msgspec.structs.replace(model.params, stop=["4", "plus"])
    whole = model.run(every_token(encode(model.tokenizer, case.sample.output))).delta
    assert (whole.reasoning_content, whole.content) == (THOUGHT, ANSWER.partition("4")[0])
