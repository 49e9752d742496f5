"""Arguments that leave while they are written: another attempt goes on after them."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest
from backedge.base.json_types import JsonObject
from backedge.postprocess.delta_builder import aggregate_deltas
from backedge.worker.regeneration import Attempt
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import override

from tests.parsers.walks import accepts
from tests.postprocess.test_call_hold import GOOD, PASSING, call
from tests.support import chunks, encode, message
from tests.worker.scripted import Step, deltas, output
from tests.worker.test_regeneration import PROMPT, Model, ask, read, read_tokens

xgrammar = pytest.importorskip("xgrammar")

# The model's output, its meaning, and the fault.
SLIPS: dict[str, tuple[str, str, str]] = {
    "a required parameter is missing": (
        call('{"days": 1}'),
        call('{"days": 1, "city": "Rome"}'),
        "missing_parameter",
    ),
    "a value is missing": (
        "Yes. " + call('{"city": "Rome", "days": }'),
        "Yes. " + call('{"city": "Rome", "days": 3}'),
        "invalid_json",
    ),
    "the model stops within a value": (
        '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Ro',
        GOOD,
        "unfinished",
    ),
    "no such function": (call('{"city": "Rome"}', "f"), GOOD, "undeclared_function"),
    "the second call has no such function": (
        f"{GOOD}\n{call('{}', 'f')}",
        f"{GOOD}\n{GOOD}",
        "undeclared_function",
    ),
    "the second call has no parameters": (
        f"{GOOD}\n{call('{}')}",
        f"{GOOD}\n{GOOD}",
        "missing_parameter",
    ),
}


@dataclass
class Meaning(Model):
    """Writes at another attempt what follows in `meant`, which its grammar has to admit."""

    meant: str = ""
    streams: bool = True

    @override
    def start(self, request: JsonObject, ending: str) -> Attempt:
        kept = read(request["token_ids"][len(PROMPT) :])
        assert self.meant.startswith(kept)
        rest = self.meant.removeprefix(kept)
        tag = request["sampling_options"]["guided_decoding"]["structural_tag"]
        assert accepts(xgrammar.Grammar.from_structural_tag(json.dumps(tag)), rest)
        self.more.append(written(rest, []))
        return super().start(request, ending)


def written(text: str, cuts: list[int]) -> list[Step]:
    """Return an engine's outputs of a text, with the end of the answer."""
    pieces = chunks(encode(text), cuts or range(1, len(encode(text))), "stop")
    return [output(piece.token_ids, finish_reason=piece.finish_reason) for piece in pieces]


cuttings = st.lists(st.integers(1, 60), max_size=10)


@given(cuttings)
@pytest.mark.parametrize("name", SLIPS)
def test_the_call_goes_on_where_it_was_right(name: str, cuts: list[int]) -> None:
    first, meant, fault = SLIPS[name]
    model = Meaning(written(first, cuts), meant=meant)
    sent = ask(model)
    plain = message(aggregate_deltas(deltas(ask(Model(written(meant, []))))))
    assert message(aggregate_deltas(deltas(sent))) == plain
    assert read(read_tokens(sent)) == meant
    assert model.counts == {(fault, "complete"): 1}


@given(cuttings)
@pytest.mark.parametrize("name", sorted(PASSING.keys() - {"a call without its end"}))
def test_good_output_needs_no_other_attempt(name: str, cuts: list[int]) -> None:
    model = Meaning(written(PASSING[name], cuts))
    plain = ask(Model(written(PASSING[name], cuts)))
    assert message(aggregate_deltas(deltas(ask(model)))) == message(aggregate_deltas(deltas(plain)))
    assert not model.requests


def test_arguments_leave_before_the_call_ends() -> None:
    text = call('{"city": "' + "Rome " * 20 + '"}')
    steps = [step for each in written(text, []) for step in (each, 0.1)]
    sent = deltas(ask(Meaning(steps)))
    assert sum(bool(delta.delta.tool_calls) for delta in sent) > 20


def test_what_cannot_be_continued_stays_open() -> None:
    strict = '<tool_call>\n{"name": "get_weather", "arguments": "{\\"city\\": \\"Ro'
    whole = message(aggregate_deltas(deltas(ask(Meaning(written(strict, []))))))
    assert whole["finish_reason"] == "stop"


def test_without_a_stream_the_whole_call_is_written_again() -> None:
    """What would have left of a slip within a value would have to stay."""
    slip = call('{"city": "Rome, "days": 1}')
    model = Model(written(slip, []), [written(GOOD, [])], streams=True)
    sent = ask(model, stream=False)
    assert read_tokens(sent) == encode(GOOD)
    assert model.counts == {("invalid_json", "complete"): 1}
