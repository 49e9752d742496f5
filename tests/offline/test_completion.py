"""The text of an answer does not depend on how its tokens come."""

from __future__ import annotations

import re
from typing import Any

import pytest
from backedge.offline.completion import Completion, CompletionSetup, StopPolicy, TokenLogprobs
from backedge.parsers.base import ParserRequest
from backedge.postprocess.messages import EngineLogprob
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support import TRANSCRIPTS, cut, encode, tiny_detokenizers, tiny_parsers, tiny_tokenizer

[END] = encode("<|im_end|>")
PARSERS = tiny_parsers()
LETTERS = TRANSCRIPTS["stop_string"]["output"]
THOUGHT = TRANSCRIPTS["stop_in_reasoning"]


class StopAt:
    """Ends an answer behind a letter."""

    def __init__(self, letter: str) -> None:
        self.name, self._letter = "stop_at", letter

    def feed(self, text: str) -> int | None:
        position = text.find(self._letter)
        return None if position < 0 else position + 1


def build(*stops: str, include: bool = False, limit: int | None = None, **fields: Any) -> Any:
    policy = StopPolicy(stops, {END: None}, include, limit)
    return CompletionSetup("key", tiny_detokenizers(), policy, **fields)


def run(setup: CompletionSetup, output: str, cuts: Any = (), watchers: Any = ()) -> Any:
    completion = Completion(0, setup, watchers)
    for piece in cut(encode(output), cuts):
        if completion.feed(piece):
            break
    else:
        completion.feed([], ended="length")
    return completion.result()


# stop strings, whether the text keeps them, text, stop_reason
STOPS = [
    (["delta, ep"], False, "alpha, beta, gamma, ", "delta, ep"),
    (["delta, ep"], True, "alpha, beta, gamma, delta, ep", "delta, ep"),
    (["gamma, delta", "ma"], False, "alpha, beta, gam", "ma"),
    (["zzz"], False, "alpha, beta, gamma, delta, epsilon, zeta, eta, theta.", None),
    (["ta", "beta"], False, "alpha, be", "ta"),
    (["beta", "ta"], False, "alpha, ", "beta"),
]


@pytest.mark.parametrize(("stops", "include", "text", "reason"), STOPS)
@settings(max_examples=20)
@given(cuts=st.sets(st.integers(1, 40)))
def test_a_stop_string_cuts_the_text(stops, include, text, reason, cuts):
    result = run(build(*stops, include=include), LETTERS, cuts)
    assert (result.text, result.stop_reason, result.finish_reason) == (text, reason, "stop")
    assert encode(LETTERS)[: len(result.token_ids)] == result.token_ids
    assert result.raw_text == tiny_tokenizer().decode(result.token_ids, skip_special_tokens=False)


@settings(max_examples=30)
@given(
    cuts=st.sets(st.integers(1, 60)),
    stops=st.lists(st.sampled_from(["END", "cold", " is", "</think>", "J", "of"]), max_size=3),
    limit=st.none() | st.integers(1, 40),
    parses=st.booleans(),
)
def test_any_chunking_gives_the_whole(cuts, stops, limit, parses):
    parsing: Any = {"parsers": PARSERS} if parses else {}
    setup = build(*dict.fromkeys(stops), limit=limit, **parsing)
    assert run(setup, THOUGHT["output"], cuts) == run(setup, THOUGHT["output"])


def test_stop_strings_of_a_parsed_message_belong_to_the_answer():
    result = run(build("END", parsers=PARSERS), THOUGHT["output"])
    assert result.message.content == THOUGHT["expect"]["content"]
    assert result.message.reasoning == THOUGHT["expect"]["reasoning"]
    whole = THOUGHT["output"]
    assert result.text == whole[: whole.rindex("END")]
    assert result.stop_reason == "END"


def test_without_a_parsed_message_they_count_everywhere():
    result = run(build("END"), THOUGHT["output"])
    assert result.text == THOUGHT["output"][: THOUGHT["output"].index("END")]


def test_a_stop_token_is_no_text_unless_included():
    comma = encode(LETTERS)[1]
    for include, text in ((False, "alpha"), (True, "alpha,")):
        policy = StopPolicy((), {comma: comma}, include)
        setup = CompletionSetup("key", tiny_detokenizers(), policy)
        result = run(setup, "alpha, beta")
        if tiny_tokenizer().decode([comma]) == ",":
            assert (result.text, result.stop_reason) == (text, comma)


def test_tokens_beyond_the_end_are_dropped():
    result = run(build(), "one<|im_end|>two")
    assert (result.text, result.raw_text, result.token_ids[-1]) == ("one", "one<|im_end|>", END)


def test_half_a_character_at_the_limit_is_left_out():
    token_ids = encode("x\U0001f44b")
    result = run(build(limit=len(token_ids) - 1), "x\U0001f44b")
    assert (result.text, result.finish_reason) == ("x", "length")


@settings(max_examples=20)
@given(cuts=st.sets(st.integers(1, 40)))
def test_a_watcher_ends_the_answer_at_its_character(cuts):
    result = run(build(), LETTERS, cuts, [StopAt("d")])
    assert (result.text, result.stop_reason, result.finish_reason) == (
        "alpha, beta, gamma, d",
        "stop_at",
        "stop",
    )
    assert result == run(build(), LETTERS, (), [StopAt("d")])


def test_a_core_that_fails_costs_the_answer():
    class BrokenDetokenizers:
        def __call__(self, options, prompt_token_ids):
            return self

        def feed(self, token_id):
            raise ValueError("no such token")

        feed_all = feed

    broken: Any = BrokenDetokenizers()
    completion = Completion(0, CompletionSetup("key", broken, StopPolicy()))
    assert completion.feed([1, 2])
    assert completion.error is not None
    assert "no such token" in completion.error.message


def test_logprobs_stop_with_the_answer():
    token_ids = encode(LETTERS)
    completion = Completion(0, build("beta", logprobs=1))
    top = [[EngineLogprob(token_id, 1, -0.5)] for token_id in token_ids]
    completion.feed(token_ids, TokenLogprobs([-0.5] * len(token_ids), top))
    result = completion.result()
    assert result.text == "alpha, "
    assert result.logprobs is not None
    assert {entry.logprob for entry in result.logprobs} == {-0.5}
    assert len(result.logprobs) == len(result.token_ids)


def test_ids_of_calls_are_the_same_in_every_run():
    transcript = TRANSCRIPTS["parallel_calls"]
    request = ParserRequest(tools=transcript["tools"], tool_choice="auto")
    first, second = (
        run(build(parsers=PARSERS, parser_request=request), transcript["output"]) for _ in "12"
    )
    ids = [call.id for call in first.message.tool_calls]
    assert ids == [call.id for call in second.message.tool_calls]
    assert len(set(ids)) == 2
    assert all(re.fullmatch("call_[0-9a-f]{24}", call_id) for call_id in ids)


@pytest.mark.parametrize("ended", ["stop", "length"])
def test_an_engine_says_why_it_ended_an_answer(ended: Any) -> None:
    completion = Completion(0, build())
    completion.feed(encode("alpha"))
    completion.feed([], ended=ended)
    result = completion.result()
    assert (result.text, result.finish_reason, result.stop_reason) == ("alpha", ended, None)


def test_an_answer_with_a_call_and_one_that_stayed_open_has_a_call() -> None:
    call = '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>'
    text = f'{call}\n<tool_call>\n{{"name": "f", "arguments": {{"b'
    tools = [{"type": "function", "function": {"name": "f"}}]
    request = ParserRequest(tools=tools, tool_choice="auto")
    setup = build("a", parsers=PARSERS, parser_request=request)
    message = run(setup, f"{text}<|im_end|>").message
    assert [call.name for call in message.tool_calls] == ["f"]
    assert message.finish_reason == "tool_calls"
