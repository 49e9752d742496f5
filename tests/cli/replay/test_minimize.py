"""Delta debugging: what is left differs, and nothing can be left out of it."""

from __future__ import annotations

from backedge.cli.replay import minimize as module
from backedge.cli.replay.minimize import (
    Trials,
    minimize,
    minimize_tokens,
    simpler_params,
    simpler_tools,
    simplify,
)
from backedge.parsers.base import ParserRequest
from backedge.postprocess import PostprocessParams
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support import params

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
    tried = list(simpler_tools(TOOLS))
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
