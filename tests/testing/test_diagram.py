"""Diagrams of formats: what an arrow says, and that each state is drawn."""

from __future__ import annotations

import re

import pytest
from backedge.parsers.format import COMPLETE, Format, Jump, State
from backedge.parsers.formats.catalog import FORMATS
from backedge.testing.diagram import draw_format, main
from click.testing import CliRunner

HEADED = Format(
    "headed",
    {
        State.CONTENT: {"<a:b>": State.HEADER},
        State.HEADER: {"\n": Jump.BY_HEADER},
        State.JSON_CALLS: {COMPLETE: Jump.RETURN},
    },
    source="this test",
    initial_state=State.CONTENT,
    headers=((re.compile("call;"), State.JSON_CALLS),),
)


def test_an_arrow_for_every_marker_and_header() -> None:
    assert draw_format(HEADED).splitlines() == [
        "stateDiagram-v2",
        "    state BY_HEADER <<choice>>",
        '    state "the text that the calls interrupted" as RETURN',
        "    [*] --> CONTENT",
        "    CONTENT --> HEADER : #lt;a#58;b#gt;",
        r"    HEADER --> BY_HEADER : \n",
        "    JSON_CALLS --> RETURN : its syntax is complete",
        "    BY_HEADER --> JSON_CALLS : call#59;",
    ]


@pytest.mark.parametrize("format_", FORMATS, ids=lambda format_: format_.name)
def test_every_state_of_a_format_is_drawn(format_: Format) -> None:
    drawn = draw_format(format_)
    markers = sum(len(by_marker) for by_marker in format_.states.values())
    assert drawn.count(" --> ") >= 1 + markers + len(format_.headers)
    assert all(f" {state.name} --> " in drawn for state, marks in format_.states.items() if marks)


def test_a_name_of_two_formats_draws_both() -> None:
    assert CliRunner().invoke(main, ["step3p5"]).output.count("stateDiagram-v2") == 2


def test_an_unknown_name_is_refused() -> None:
    refused = CliRunner().invoke(main, ["nonsense"])
    assert (refused.exit_code, "'hermes'" in refused.stderr) == (2, True)
