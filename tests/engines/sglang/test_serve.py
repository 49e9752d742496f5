"""Our parsers in SGLang's own server, without the server; tests/e2e/test_servers.py has one."""

from __future__ import annotations

import functools
import itertools
from typing import Any

import pytest
from backedge.base import server_names
from backedge.base.limits import MAX_CONSIDERED
from backedge.engines.sglang.serve import CallDetector, ReasoningDetector
from backedge.parsers.parser_lookup import reasoning_format
from hypothesis import given
from hypothesis import strategies as st
from sglang.srt.entrypoints.openai.protocol import Tool, ToolChoice
from transformers import AutoTokenizer

from benchmarks.samples.tool_calls import TOOL_CALLS
from tests.support import TINY_MODEL, TRANSCRIPTS

SAMPLES = {
    key: sample
    for key, sample in TOOL_CALLS.items()
    # Of gpt-oss, calls begin within what SGLang's detector of reasoning hands on.
    if key.split()[0] in {*server_names.TOOL_CALL_PARSERS} - {"openai"}
}
ADD_NOTE = [Tool(**tool) for tool in SAMPLES["hermes"].tools]
THOUGHT, ANSWER = "I think.\n", "\n\nYes."


@functools.cache
def tokenizer() -> Any:
    return AutoTokenizer.from_pretrained(TINY_MODEL)


def cut(text: str, cuts: set[int]) -> list[str]:
    edges = sorted({0, len(text), *(position for position in cuts if position < len(text))})
    return [text[start:end] for start, end in itertools.pairwise(edges)]


def stream_calls(detector: CallDetector, parts: list[str]) -> tuple[str, list[dict[str, Any]]]:
    """Return content and calls as a client adds them."""
    found = [detector.parse_streaming_increment(part, ADD_NOTE) for part in parts]
    found.append(detector.finish(ADD_NOTE))
    calls: list[dict[str, Any]] = []
    for item in (item for part in found for item in part.calls):
        if item.tool_index == len(calls):
            calls.append({"name": item.name, "arguments": ""})
        calls[item.tool_index]["arguments"] += item.parameters
    return "".join(part.normal_text for part in found), calls


@pytest.mark.parametrize("key", SAMPLES)
@given(cuts=st.sets(st.integers(1, 300)))
def test_every_format_reads_any_deltas(key: str, cuts: set[int]) -> None:
    name, output = key.split(maxsplit=1)[0], SAMPLES[key].output
    parts = cut(output, cuts)
    content, calls = stream_calls(CallDetector(name), parts)
    whole = CallDetector(name).detect_and_parse(output, ADD_NOTE)
    assert content == whole.normal_text
    assert calls == [{"name": call.name, "arguments": call.parameters} for call in whole.calls]
    assert [call["name"] for call in calls] == ["add_note"]
    assert CallDetector(name).has_tool_call(output)


def test_text_has_no_call() -> None:
    assert not CallDetector("hermes").has_tool_call("Just text.")
    assert stream_calls(CallDetector("hermes"), ["Just ", "text."]) == ("Just text.", [])


def test_an_open_call_stays_open() -> None:
    text = '{"name": "add_note", "arguments": {"text": "a'
    _, [call] = stream_calls(CallDetector("hermes"), [f"<tool_call>{text}"])
    assert call["arguments"] == '{"text": "a'
    whole = CallDetector("hermes").detect_and_parse(f"<tool_call>{text}", ADD_NOTE)
    assert (whole.normal_text, whole.calls) == (text, [])


def test_a_malformed_call_is_text_if_the_answer_is_whole() -> None:
    text = '{"name": "add_note", "arguments": {"text": "a", "count": }}'
    whole = CallDetector("hermes").detect_and_parse(f"<tool_call>{text}</tool_call>", ADD_NOTE)
    assert whole.calls == []
    assert whole.normal_text.startswith('{"name": "add_note", "arguments": {"text": "a"')


@given(cuts=st.sets(st.integers(1, 60)))
def test_reasoning_in_any_deltas(cuts: set[int]) -> None:
    for text, opened in ((f"<think>{THOUGHT}</think>{ANSWER}", True), (ANSWER, False)):
        parts = cut(text, cuts)
        detector = ReasoningDetector("qwen3", force_reasoning=opened)
        found = [*map(detector.parse_streaming_increment, parts), detector.finish()]
        assert "".join(part.normal_text for part in found) == ANSWER
        assert "".join(part.reasoning_text for part in found) == (THOUGHT if opened else "")


def test_reasoning_waits_for_its_end_if_it_is_not_streamed() -> None:
    detector = ReasoningDetector("qwen3", force_reasoning=True, stream_reasoning=False)
    assert detector.parse_streaming_increment("I ").reasoning_text == ""
    assert detector.parse_streaming_increment("think.</think>Y").reasoning_text == "I think."
    cut_off = ReasoningDetector("qwen3", force_reasoning=True, stream_reasoning=False)
    cut_off.parse_streaming_increment("I ")
    assert cut_off.finish().reasoning_text == "I "


LOOKED, CALL = "I look.", '<tool_call>\n{"name": "add_note", "arguments": {}}\n</tool_call>'
LONG = "x" * MAX_CONSIDERED


@pytest.mark.parametrize(
    ("text", "reasoning", "rest"),
    [
        (f"{LOOKED}{CALL}", LOOKED, CALL),
        (f"{LOOKED}{CALL}</think>Yes.", LOOKED + CALL, "Yes."),
        (
            f"I may write <tool_call> or <tool.</think>{CALL}",
            "I may write <tool_call> or <tool.",
            CALL,
        ),
        (f"{LOOKED}{CALL}{LONG}</think>Yes.", LOOKED, f"{CALL}{LONG}</think>Yes."),
        (f"{LOOKED}</think>{CALL}<think>No.</think>", LOOKED, f"{CALL}<think>No.</think>"),
        (f"{LOOKED}<tool", f"{LOOKED}<tool", ""),
    ],
)
@given(cuts=st.sets(st.integers(1, 120)))
def test_a_call_in_a_thought_without_an_end_is_meant(
    text: str, reasoning: str, rest: str, cuts: set[int]
) -> None:
    detector = ReasoningDetector("qwen3", force_reasoning=True, call_parser="hermes")
    found = [*map(detector.parse_streaming_increment, cut(text, cuts)), detector.finish()]
    assert "".join(part.reasoning_text for part in found) == reasoning
    assert "".join(part.normal_text for part in found) == rest


def test_content_may_be_demanded() -> None:
    detector = ReasoningDetector("qwen3", force_reasoning=True, force_nonempty_content=True)
    assert detector.detect_and_parse("I think.").normal_text == "I think."


def test_auto_reads_the_tokenizers_template() -> None:
    text = '<tool_call>\n{"name": "add_note", "arguments": {}}\n</tool_call>'
    _, [call] = stream_calls(CallDetector("auto", tokenizer()), [text])
    assert call == {"name": "add_note", "arguments": "{}"}
    found = ReasoningDetector("auto", tokenizer=tokenizer())
    assert (found.think_start_token, found.think_end_token) == ("<think>", "</think>")
    assert found.reasoning_default == "enable_thinking"


@pytest.mark.parametrize("name", server_names.REASONING_PARSERS)
def test_every_parser_of_reasoning_has_markers(name: str) -> None:
    if name == "minimax_m2_append_think":
        with pytest.raises(SystemExit, match="cannot have the reasoning parser"):
            ReasoningDetector(name)
    else:
        found = ReasoningDetector(name)
        assert found.think_end_token
        assert reasoning_format(name) is not None


WEATHER = [Tool(**tool) for tool in TRANSCRIPTS["tool_call"]["tools"]]


@pytest.mark.parametrize("choice", ["required", ToolChoice(function={"name": "get_weather"})])
def test_forced_calls_get_a_grammar_in_the_models_syntax(choice: Any) -> None:
    tag = CallDetector("hermes").get_structural_tag(WEATHER, choice)
    assert tag is not None
    assert "<tool_call>" in tag.model_dump_json()
    assert "get_weather" in tag.model_dump_json()
