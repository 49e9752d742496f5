"""Of the white space between text and a call, clients get what no chat template adds again."""

from __future__ import annotations

import pytest
from backedge.parsers.base import ParserRequest
from backedge.parsers.parser_lookup import tool_format
from backedge.postprocess.delta_builder import DeltaBuilder, aggregate_deltas
from hypothesis import given
from hypothesis import strategies as st

from tests.parsers.families.family import Family
from tests.parsers.fuzzing import fuzz
from tests.slips.slips import TOOLS
from tests.slips.systems import WRITERS, find_parsers, read

TEXT = "I write it."
CALLS = [("remove", {"path": "alpha"})]
# Its marker begins with the line break.
IN_MARKER = "xlam"
REQUEST = ParserRequest(tools=TOOLS, tool_choice="auto")


def write(family: Family, content: str) -> str:
    """Return how the family writes the content and a call."""
    assert family.write is not None
    return family.write(content, CALLS)


def read_content(family: Family, output: str, breaks: int | None) -> str | None:
    """Return the content that a client gets of an output with one call."""
    parsers = find_parsers("ours", family)
    assert parsers is not None
    builder = DeltaBuilder(0, REQUEST, breaks)
    for event in read(parsers, family, output):
        builder.write(event)
    builder.finish("stop", None, cut=False)
    delta = aggregate_deltas(builder.take()).delta
    assert len(delta.tool_calls) == 1
    return delta.content


# The others write no text in front of calls.
with_text = pytest.mark.parametrize(
    "family",
    [family for family in WRITERS if TEXT in write(family, TEXT)],
    ids=lambda family: family.name,
)


@with_text
@fuzz(20)
@given(space=st.text(" \t\n", max_size=5))
def test_only_the_line_breaks_of_the_template_are_dropped(family: Family, space: str) -> None:
    format_ = tool_format(family.tool_parser or "")
    assert format_ is not None
    breaks = format_.breaks_before_calls
    content = TEXT + space
    added = write(family, content).partition(content)[2]
    left = content + added[: len(added) - len(added.lstrip())]
    for _ in range(breaks + (family.name == IN_MARKER)):
        left = left.removesuffix("\n")
    assert content.startswith(left)
    assert read_content(family, write(family, content), breaks) == left


@with_text
def test_where_the_template_is_not_known_all_of_it_is_dropped(family: Family) -> None:
    assert read_content(family, write(family, TEXT + " \n\n"), None) == TEXT


@with_text
def test_white_space_without_text_is_no_content(family: Family) -> None:
    output = write(family, TEXT).replace(TEXT, "\n\n")
    assert read_content(family, output, 0) is None
