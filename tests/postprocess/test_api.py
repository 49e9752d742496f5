"""The public function: a post-processor with linear parsers by their names."""

import pytest
from backedge.base.errors import UnknownParserError
from backedge.parsers.base import ParserRequest
from backedge.postprocess import Chunk, postprocessor
from backedge.postprocess.delta_builder import aggregate_deltas

from tests.support import encode, message, params, tiny_tokenizer

TOOLS = [{"type": "function", "function": {"name": "f"}}]
OUTPUT = '<think>why</think><tool_call>\n{"name": "f", "arguments": {"x": 1}}\n</tool_call>'


def test_reasoning_and_calls():
    request = params(parser=ParserRequest(tools=TOOLS, tool_choice="auto"))
    post = postprocessor(
        request, tiny_tokenizer(), tool_call_parser="hermes", reasoning_parser="qwen3"
    )
    deltas = post.feed(Chunk(token_ids=encode(OUTPUT), finish_reason="stop"))
    answer = message(aggregate_deltas(deltas))
    assert answer == {
        "reasoning": "why",
        "content": None,
        "tool_calls": [{"name": "f", "arguments": '{"x": 1}'}],
        "finish_reason": "tool_calls",
    }


def test_without_names_all_text_is_content():
    post = postprocessor(params(), tiny_tokenizer())
    [delta] = post.feed(Chunk(token_ids=encode("a <think>"), finish_reason="length"))
    assert delta.delta.content is not None
    assert delta.delta.content.startswith("a ")


def test_a_prompt_that_opens_reasoning():
    prompt = encode("<|im_start|>assistant\n<think>\n")
    post = postprocessor(
        params(), tiny_tokenizer(), reasoning_parser="qwen3", prompt_token_ids=prompt
    )
    [delta] = post.feed(Chunk(token_ids=encode("why"), finish_reason="length"))
    assert delta.delta.reasoning_content == "why"


def test_an_unknown_name():
    with pytest.raises(UnknownParserError, match="--tool-call-parser 'hermez' is not known"):
        postprocessor(params(), tiny_tokenizer(), tool_call_parser="hermez")
