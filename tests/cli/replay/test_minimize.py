"""A case shows the fault of its recording, and nothing can be left out of it."""

from __future__ import annotations

import msgspec
import pytest
from backedge.base.errors import SetupError
from backedge.cli.load_model import LoadedModel, ParserChoice
from backedge.cli.replay import minimize as module
from backedge.cli.replay.minimize import (
    Minimal,
    Trials,
    minimize,
    minimize_request,
    minimize_tokens,
    simpler,
    simpler_params,
    simplify,
)
from backedge.parsers.base import ParserRequest
from backedge.postprocess import Chunk, PostprocessParams
from backedge.recording.parser_case import run_case
from backedge.recording.recording import Recording
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cli.replay.recordings import call
from tests.recording.test_rerun import record
from tests.support import encode, params

TOOLS = [
    {"type": "function", "function": {"name": "a", "description": "d"}},
    {
        "type": "function",
        "function": {
            "name": "b",
            "parameters": {
                "type": "object",
                "properties": {"x": {"type": "string", "title": "X"}, "y": {}},
                "required": ["x"],
            },
        },
    },
]


@settings(max_examples=80, deadline=None, database=None)
@given(
    items=st.lists(st.integers(0, 5), min_size=1, max_size=30),
    needed=st.lists(st.integers(0, 5), max_size=3),
)
def test_nothing_can_be_left_out(items: list[int], needed: list[int]) -> None:
    def differs(tokens: list[int], _: PostprocessParams) -> bool:
        rest = iter(tokens)
        return all(wanted in rest for wanted in needed)  # in this order

    if not differs(items, params()):
        return
    found = minimize_tokens(items, params(), Trials(differs))
    assert differs(found, params())
    smaller = (found[:n] + found[n + 1 :] for n in range(len(found)) if len(found) > 1)
    assert not any(differs(each, params()) for each in smaller)


def test_parameters_get_plain_as_long_as_it_differs() -> None:
    request = params(
        stop=["END"],
        n=2,
        logprobs=3,
        parser=ParserRequest(tools=TOOLS, chat_template_kwargs={"thinking": True, "a": 1}),
    )

    def differs(_: list[int], found: PostprocessParams) -> bool:
        names = [tool["function"]["name"] for tool in found.parser.tools]
        return "b" in names and "thinking" in found.parser.chat_template_kwargs

    token_ids, found = minimize([1, 2], request, Trials(differs))
    assert len(token_ids) == 1
    assert found == params(
        parser=ParserRequest(
            tools=[{"type": "function", "function": {"name": "b", "parameters": PLAIN}}],
            chat_template_kwargs={"thinking": True},
        )
    )
    assert not any(differs([], each) for each in simpler_params(found))


PLAIN = {"type": "object", "properties": {}}


def test_every_part_of_tools_is_tried() -> None:
    tried = list(simpler(TOOLS))
    assert [TOOLS[1]] in tried
    assert [TOOLS[0]] in tried
    assert all(len(tools) < 2 or tools != TOOLS for tools in tried)
    properties = [
        tools[1]["function"]["parameters"]["properties"] for tools in tried if len(tools) == 2
    ]
    assert {"x": {"type": "string", "title": "X"}} in properties
    assert {"x": {"type": "string"}, "y": {}} in properties


def test_trials_end(monkeypatch) -> None:
    monkeypatch.setattr(module, "MAX_TRIALS", 10)
    trials = Trials(lambda tokens, _: 7 in tokens)
    found, _ = minimize([*range(100)], params(), trials)
    assert (trials.count, trials.over) == (10, True)
    assert 7 in found
    assert simplify(found, params(stop=["a"]), trials) == params(stop=["a"])


def shrink(recording: Recording, left: ParserChoice, right: ParserChoice) -> Minimal:
    model = LoadedModel(recording.model, None)
    sides = [model.build(choice) for choice in (left, right)]
    names = right.names(recording.model)
    return minimize_request(recording, model, sides[0], sides[1], names)


def test_a_call_stays_a_whole_call() -> None:
    found = shrink(call(), ParserChoice(tool_call=""), ParserChoice())
    (shown,) = found.case.expect.tool_calls
    assert shown.name
    msgspec.json.decode(shown.arguments)
    assert found.case.expect.finish_reason == "tool_calls"
    assert found.case.instead is not None
    assert found.case.instead.tool_calls == []
    assert len(found.token_ids) < found.before
    assert run_case(found.case) == found.case.expect


def test_what_is_left_is_a_call_that_a_model_writes() -> None:
    """A marker of its end stays, and a value of the same type for each key that it keeps."""
    arguments = '{"city": "Oslo", "days": 3, "units": null}'
    text = f'<tool_call>\n{{"name": "f", "arguments": {arguments}}}\n</tool_call>'
    recording = record([Chunk(token_ids=encode(text)), Chunk(finish_reason="stop")])
    found = shrink(recording, ParserChoice(tool_call=""), ParserChoice())
    assert "</tool_call>" in "".join(found.case.tokens)
    [shown] = found.case.expect.tool_calls
    kept = msgspec.json.decode(shown.arguments)
    whole = msgspec.json.decode(arguments)
    assert kept
    assert all(type(value) is type(whole[key]) for key, value in kept.items())


def test_the_choice_that_differs_becomes_the_first() -> None:
    text, calls = encode("Hi you there"), encode('<tool_call>{"name": "f"}</tool_call>')
    recording = record(
        [
            Chunk(index=0, token_ids=text, finish_reason="stop"),
            Chunk(index=1, token_ids=calls),
            Chunk(index=1, finish_reason="stop"),
            Chunk(index=1, token_ids=text),
        ],
        n=2,
    )
    found = shrink(recording, ParserChoice(tool_call=""), ParserChoice())
    assert "".join(found.case.tokens).startswith("<tool_call>")
    assert run_case(found.case) == found.case.expect


def test_without_a_difference_there_is_no_case() -> None:
    with pytest.raises(SetupError, match="nothing to minimize"):
        shrink(call(), ParserChoice(), ParserChoice(kind="linear"))
