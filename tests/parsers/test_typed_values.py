"""Values drawn from schemas, written by each family whose parameters are text."""

from __future__ import annotations

import itertools
import json
from decimal import Decimal
from typing import Any

import pytest
from backedge.parsers.base import ParserNames, ParserRequest
from backedge.parsers.events import ToolCallArguments
from backedge.parsers.format import State
from backedge.parsers.linear_parsers import Vocabulary
from backedge.parsers.parser_lookup import linear_parsers, tool_format
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.parsers.drawn_schemas import Drawn, drawn_schemas
from tests.parsers.families import FAMILIES
from tests.parsers.families.family import Family


def has_text_values(family: Family) -> bool:
    format_ = tool_format(family.tool_parser or "")
    return format_ is not None and not {State.VALUE, State.ELEMENTS}.isdisjoint(format_.states)


TEXT_FAMILIES = [family for family in FAMILIES.values() if has_text_values(family)]
PARSERS = {
    family.name: linear_parsers(ParserNames(family.tool_parser), Vocabulary())
    for family in TEXT_FAMILIES
}


def read_value(family: Family, drawn: Drawn, cuts: set[int]) -> Any:
    """Return the value of a call's parameter, as the parser reads it."""
    function = {"name": "f", "parameters": drawn.parameters}
    request = ParserRequest(tools=[{"type": "function", "function": function}], tool_choice="auto")
    parser = PARSERS[family.name](request, [])
    assert family.write is not None
    output = family.write("", [("f", {"x": drawn.value})])
    positions = sorted({0, len(output), *(cut for cut in cuts if cut < len(output))})
    events = [
        event
        for start, end in itertools.pairwise(positions)
        for event in parser.feed(output[start:end])
    ]
    events += parser.finish()
    return json.loads(
        "".join(event.text for event in events if isinstance(event, ToolCallArguments))
    )["x"]


def whole(value: Any) -> Any:
    """Return a value in which 1.0 is 1."""
    if isinstance(value, dict):
        return {key: whole(member) for key, member in value.items()}
    if isinstance(value, list):
        return [whole(item) for item in value]
    if isinstance(value, float) and value.is_integer():
        return int(Decimal(repr(value)))  # as it was written: 4.2e16 has more digits in binary
    return value


def can_write(family: Family, value: Any) -> bool:
    """Whether the syntax can write the value: no outer white space, nothing nested in elements."""
    if isinstance(value, str):
        return value.strip() == value and not value.startswith('"')
    format_ = tool_format(family.tool_parser or "")
    nests = isinstance(value, dict | list)
    return not nests or (format_ is not None and State.VALUE in format_.states)


@pytest.mark.parametrize("family", TEXT_FAMILIES, ids=lambda family: family.name)
@settings(
    max_examples=120,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
@given(drawn=drawn_schemas(), cuts=st.sets(st.integers(1, 200), max_size=8))
def test_the_value_read_is_the_value_written(family: Family, drawn: Drawn, cuts: set[int]) -> None:
    """Apart from strings that spell another value that the schema accepts, too."""
    assume(can_write(family, drawn.value))
    found = read_value(family, drawn, cuts)
    assert drawn.accepts(found), found
    if not isinstance(drawn.value, str) or isinstance(found, str):
        assert json.dumps(whole(found), sort_keys=True) == json.dumps(
            whole(drawn.value), sort_keys=True
        )
