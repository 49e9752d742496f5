"""Well-formed calls of every kind, as public templates write them, pass unchanged."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conformance.outside_templates import TEMPLATES, OutsideTemplate, load_template
from tests.conformance.test_outside_templates import OTHER_ANSWERS
from tests.parsers.fuzzing import fuzz
from tests.slips.outcome import Class
from tests.slips.wellformed import KINDS, WellFormed, can_write, judge

# Its turns begin with the end of the prompt, which its prompts lack.
PROMPT_IN_TURN = "tool_chat_template_deepseekv31"
LEFT_OUT = {*OTHER_ANSWERS, PROMPT_IN_TURN}
READ = [name for name in TEMPLATES if name not in LEFT_OUT and load_template(name).format]
TRIES = 1000


def draw_turn(draw: random.Random, template: OutsideTemplate, kind: str) -> WellFormed | None:
    """Return a call as the template writes it; None if it or its syntax cannot."""
    assert template.format is not None
    call, schema = KINDS[kind](draw, template.format)
    case = WellFormed(template.name, kind, call, schema, "")
    if not can_write(template.format, call[1]):
        return None
    turn = next(template.write([call], case.tools), None)
    if turn is None:
        return None
    return WellFormed(template.name, kind, call, schema, turn, ends_turn=True)


@pytest.mark.parametrize("name", READ)
@pytest.mark.parametrize("kind", KINDS)
@fuzz(2)
@given(draw=st.randoms(use_true_random=True), size=st.integers(1, 40))
def test_a_wellformed_call_of_a_public_template_passes_unchanged(
    name: str, kind: str, draw: random.Random, size: int
) -> None:
    template = load_template(name)
    case = next(case for _ in range(TRIES) if (case := draw_turn(draw, template, kind)) is not None)
    events = template.read(case.output, case.tools)
    assert template.read(case.output, case.tools, size) == events
    written = judge(case, events, lambda _, calls: next(template.write(calls, case.tools), ""))
    assert written is Class.RIGHT
