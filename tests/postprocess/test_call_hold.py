"""What leaves while a call is being written, and when it is to be generated again."""

from __future__ import annotations

import pytest
from backedge.parsers.base import ParserNames, ParserRequest
from backedge.postprocess import Postprocessor, call_hold
from backedge.postprocess.call_hold import FaultyCall
from backedge.postprocess.chunk_scheduler import ChunkScheduler
from backedge.postprocess.delta_builder import aggregate_deltas
from backedge.postprocess.messages import ChoiceDelta
from backedge.postprocess.settings import MergeDelays
from hypothesis import given
from hypothesis import strategies as st

from tests.support import chunks, encode, message, params, tiny_detokenizers, tiny_parsers

PARSERS = tiny_parsers(ParserNames("hermes"))
PARAMETERS = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city"],
}


def declare(strict: bool = False) -> ParserRequest:
    function = {"name": "get_weather", "parameters": PARAMETERS, "strict": strict}
    tools = [{"type": "function", "function": function}]
    return ParserRequest(tools=tools, tool_choice="auto", malformed_calls="regenerate")


def call(arguments: str, name: str = "get_weather") -> str:
    return f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'


GOOD = call('{"city": "Rome"}')
# Output, the text that stays of it, and what is wrong with the call after that.
FAULTS: dict[str, tuple[str, str, str]] = {
    "a required parameter is missing": ("Yes. " + call("{}"), "Yes. ", "missing_parameter"),
    "the second call has no such function": (
        f"{GOOD}\n{call('{}', 'f')}",
        GOOD,
        "undeclared_function",
    ),
    "a value is missing": (call('{"city": , "days": 1}'), "", "invalid_json"),
    "the model stops within": (
        'A<tool_call>\n{"name": "get_weather", "arguments": {"city": ',
        "A",
        "unfinished",
    ),
    "the model stops before the arguments": ('<tool_call>\n{"name": "get_weather", ', "", "slip"),
    "a quote of the name is missing": (
        '<tool_call>\n{"name: "get_weather", "arguments": {}}\n</tool_call>',
        "",
        "slip",
    ),
}
PASSING = {
    "text": "No call at all, only <b>text</b>.",
    "a mark in prose": "Calls begin with <tool_call>, I think.",
    "a name in prose": "Write <tool_call>, and then call get_weather with a city. " * 8,
    "a call": f"Look.\n{GOOD}",
    "two calls": f"{GOOD}\n{GOOD}",
    "a key that is not declared": call('{"city": "Rome", "more": 1}'),
    "a value of another type": call('{"city": 5}'),
    "a number beyond a float": call('{"city": "Rome", "days": 1e999}'),
    "a long number": call('{"city": "Rome", "days": ' + "9" * 4300 + "}"),
    "half a pair of surrogates": call(r'{"city": "Rome \ud83d"}'),
    "a call without its end": GOOD.removesuffix("\n</tool_call>"),
}


def take(
    output: str, cuts: list[int], request: ParserRequest, finish: str = "stop"
) -> tuple[list[int], list[ChoiceDelta], FaultyCall | None]:
    """Return the tokens and the deltas that leave, and the call that is to be generated again."""
    post = Postprocessor(params(parser=request), tiny_detokenizers(), PARSERS)
    stream = ChunkScheduler(post, MergeDelays(tokens=0.0))
    token_ids: list[int] = []
    deltas: list[ChoiceDelta] = []
    for now, chunk in enumerate(chunks(encode(output + "<|im_end|>"), cuts, finish)):
        stream.add(chunk, now)
        for part in stream.take(now):
            token_ids += part.token_ids
            deltas += part.deltas
            if part.faulty is not None:
                return token_ids, deltas, part.faulty
    return token_ids, deltas, None


cuttings = st.lists(st.integers(1, 60), max_size=20)


@given(cuttings)
@pytest.mark.parametrize("name", FAULTS)
def test_what_stays_is_the_text_in_front_of_the_call(name: str, cuts: list[int]) -> None:
    output, kept, fault = FAULTS[name]
    token_ids, deltas, faulty = take(output, cuts, declare())
    assert faulty == FaultyCall(fault, len(encode(kept)))  # type: ignore[arg-type]  # a table's
    assert token_ids == encode(kept)
    content = "".join(delta.delta.content or "" for delta in deltas)
    assert content == kept.partition("<")[0].rstrip() or not kept


@given(cuttings)
@pytest.mark.parametrize("name", PASSING)
def test_good_output_arrives_as_without_another_attempt(name: str, cuts: list[int]) -> None:
    token_ids, deltas, faulty = take(PASSING[name], cuts, declare())
    assert (faulty, token_ids) == (None, encode(PASSING[name] + "<|im_end|>"))
    plain = ParserRequest(tools=declare().tools, tool_choice="auto")
    _, expected, _ = take(PASSING[name], cuts, plain)
    assert message(aggregate_deltas(deltas)) == message(aggregate_deltas(expected))


def test_a_strict_tools_arguments_match_its_schema() -> None:
    output = call('{"city": 5}')
    assert take(output, [], declare(strict=True))[2] == FaultyCall("schema", 0)


def test_a_call_that_a_limit_cuts_is_not_generated_again() -> None:
    output = 'A<tool_call>\n{"name": "get_weather", "arguments": {"city": "Ro'
    _, deltas, faulty = take(output, [], declare(), "length")
    assert (faulty, deltas[-1].finish_reason) == (None, "length")


def test_a_long_call_leaves_as_it_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_hold, "MAX_DISCARDED_TOKENS", 30)
    output = call('{"city": "' + "Rome " * 30 + '", "days": }')
    token_ids, deltas, faulty = take(output, [*range(1, 300)], declare())
    assert (faulty, token_ids) == (None, encode(output + "<|im_end|>"))
    assert len(deltas) > 100


def test_tokens_of_a_call_are_not_late() -> None:
    post = Postprocessor(params(parser=declare()), tiny_detokenizers(), PARSERS)
    stream = ChunkScheduler(post, MergeDelays(tokens=0.0))
    for now, chunk in enumerate(chunks(encode(GOOD), range(1, 99), None)):
        stream.add(chunk, now)
        for part in stream.take(now):
            assert part.deltas or not part.token_ids
        assert stream.oldest == float("inf")
