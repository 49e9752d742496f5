"""A malformed call is generated again: what arrives then is right."""

from __future__ import annotations

import json

import pytest
from backedge.parsers.schema import FunctionSchema, read_parameters
from backedge.parsers.schema_validation import accepts as validates

from tests.parsers.families.family import SCENARIOS, Family
from tests.parsers.families.family import TOOLS as SCENARIO_TOOLS
from tests.parsers.walks import accepts, xgrammar
from tests.slips.regeneration import Got, Model, classify, read_calls, sample
from tests.slips.slips import PAIRS, TOOLS, Slip
from tests.slips.systems import WRITERS

EVERY = 40
SCHEMAS = read_parameters(TOOLS)
families = pytest.mark.parametrize("family", WRITERS, ids=lambda family: family.name)
# The marker that ends a call ends the output, so no grammar has it.
LAST = ("<|call|>", "<|eot|>")
# Their templates sort the arguments; the grammar has the schema's order.
SORTED = {"gemma4", "functiongemma"}


@families
def test_every_call_that_arrives_is_valid_and_none_is_lost(family: Family) -> None:
    admitted = 0
    for slip in sample(family, EVERY):
        model = Model(family)
        whole = model.ask(slip, "regenerate")
        for name, arguments in read_calls(whole):
            assert validates(FunctionSchema(SCHEMAS[name]).root, arguments), slip.output
        assert classify(whole, slip) is not Got.LOST, slip.output
        assert {outcome for _, outcome in model.faults} <= {"complete"}, slip.output
        for guided, text in () if family.name in SORTED else model.grammars[:1]:
            grammar = xgrammar.Grammar.from_structural_tag(json.dumps(guided["structural_tag"]))
            end = next((last for last in LAST if text.endswith(last)), "\0")
            assert accepts(grammar, text.removesuffix(end)), (slip.output, text)
            admitted += 1
    assert admitted or family.name in SORTED


@families
def test_a_stream_is_as_a_whole_answer(family: Family) -> None:
    for slip in sample(family, 2 * EVERY):
        whole, streamed = (
            Model(family).ask(slip, "regenerate", stream=stream) for stream in (False, True)
        )
        assert read_calls(whole) == read_calls(streamed)
        assert whole.delta.content == streamed.delta.content


@families
def test_right_calls_are_not_generated_again(family: Family) -> None:
    assert family.write is not None
    for calls in PAIRS:
        right = Slip(family.name, calls, (), family.write("", calls))
        model = Model(family)
        assert classify(model.ask(right, "regenerate"), right) is Got.RIGHT
        assert (model.grammars, model.faults) == ([], [])


@families
def test_no_scenario_is_generated_again(family: Family) -> None:
    assert family.write is not None
    for scenario in SCENARIOS:
        if scenario.id in family.leaves_out:
            continue
        output = family.write(scenario.content, scenario.calls) + scenario.behind
        model = Model(family, SCENARIO_TOOLS)
        right = Slip(family.name, scenario.calls, (), output)
        got = model.ask(right, "regenerate"), Model(family, SCENARIO_TOOLS).ask(right, "open")
        assert read_calls(got[0]) == read_calls(got[1]), scenario.id
        assert got[0].delta.content == got[1].delta.content
        assert (model.grammars, model.faults) == ([], []), scenario.id
