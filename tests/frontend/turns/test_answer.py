"""An answer is collected from its deltas as the model's parser reads it from its tokens."""

import pytest
from backedge.frontend.turns.answer import Answer, AnswerCollector, read_answer
from backedge.parsers.base import ParserRequest
from backedge.postprocess.messages import Chunk
from backedge.postprocess.postprocessor import Postprocessor

from tests.frontend.chat_requests import TOOL
from tests.support import encode, params, tiny_detokenizers, tiny_parsers

REQUEST = params(parser=ParserRequest(tools=[TOOL], tool_choice="auto"))
CALL = '<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>'
OUTPUTS = {
    "text": "</think>Three.",
    "thought": "<think>\nI count.\n</think>\n\nThree.",
    "call": f"<think>\nHm.\n</think>\n\n{CALL}",
    "open call": '</think><tool_call>\n{"name": "f", "arguments": {"a": 1, "b"}}\n</tool_call>',
}


def collect(text, n=1, step=3):
    kept: list[Answer] = []
    token_ids: list[list[int]] = [[] for _ in range(n)]
    collector = AnswerCollector(token_ids, kept.append)
    post = Postprocessor(params(n=n, parser=REQUEST.parser), tiny_detokenizers(), tiny_parsers())
    generated = encode(text + "<|im_end|>")
    for start in range(0, len(generated), step):
        for index in range(n):
            part = generated[start : start + step]
            is_last = start + step >= len(generated)
            chunk = Chunk(index=index, token_ids=part, finish_reason="stop" if is_last else None)
            token_ids[index] += part
            collector.add(post.feed(chunk))
    return kept


@pytest.mark.parametrize("text", OUTPUTS.values(), ids=OUTPUTS)
@pytest.mark.parametrize("step", [1, 3, 100])
def test_an_answer_is_the_one_that_is_read_back(text, step):
    [answer] = collect(text, step=step)
    again = read_answer(answer.token_ids, [], REQUEST, tiny_detokenizers(), tiny_parsers())
    for call in (*(answer.message.tool_calls or ()), *(again.message.tool_calls or ())):
        call.id = None
    assert answer == again
    assert answer.token_ids == encode(text + "<|im_end|>")


@pytest.mark.parametrize(
    ("name", "problem"),
    [("text", None), ("thought", None), ("call", None), ("open call", "malformed")],
)
def test_a_malformed_answer_has_a_problem(name, problem):
    [answer] = collect(OUTPUTS[name])
    assert answer.problem == problem


def test_each_choice_is_an_answer():
    answers = collect(OUTPUTS["thought"], n=3)
    assert [answer.reasoning for answer in answers] == ["\nI count.\n"] * 3
