"""Where a stock frontend's parsers must get text in parts, format by format."""

import pytest
from backedge.base.errors import TOOL_CALL_FLAG
from backedge.parsers.base import ParserNames
from backedge.worker.stock_frontends import SIGNS, find_markers, known_in_rust

NONE = ParserNames()
CASES = [
    (NONE, NONE, []),
    (NONE, ParserNames("hermes", "qwen3"), []),
    (ParserNames("hermes"), NONE, [*SIGNS, "<tool_call>", "</tool_call>"]),
    (ParserNames("hermes", "qwen3"), NONE,
     [*SIGNS, "<tool_call>", "</tool_call>", "<think>", "</think>"]),
    # Names that only Dynamo has: the worker's own name says which format it is.
    (ParserNames(None, "basic"), NONE, ["<think>", "</think>"]),
    (ParserNames(None, "nemotron"), NONE, None),
    (ParserNames(None, "nemotron_nano"), ParserNames(None, "qwen3"), ["<think>", "</think>"]),
    (ParserNames("nobody's", "qwen3"), ParserNames("nobody's"), None),
    # A call that begins with a word, or a brace alone.
    (ParserNames("phi4"), NONE, [*SIGNS, "functools"]),
    (ParserNames("llama3_json"), NONE,
     [*SIGNS, "<|python_tag|>", "<|python_start|>", "<function=", "<|python_end|>",
      "</function>"]),
]  # fmt: skip


@pytest.mark.parametrize(("in_rust", "names", "markers"), CASES)
def test_which_markers(in_rust, names, markers):
    assert find_markers(in_rust, names) == markers


def test_they_begin_and_end_text_for_the_client_and_nothing_within_a_call():
    markers = find_markers(ParserNames("qwen3_coder"), NONE)
    assert markers is not None
    assert {*SIGNS, "<tool_call>", "</tool_call>", "<function="} == set(markers)


@pytest.mark.parametrize("name", sorted(known_in_rust(TOOL_CALL_FLAG)))
def test_signs_to_which_any_of_dynamos_tool_parsers_reacts_are_markers(name):
    markers = find_markers(ParserNames(name), NONE)
    assert markers is None or set("{}[]<>") <= set(markers)
