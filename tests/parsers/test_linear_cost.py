"""Four times the output costs four times the work, whatever the model writes.

Work is the number of functions called, in Python and in C, so that no clock has a say. A marker
that begins no call, a bracket that closes nothing, a quote that stays open: each alone, and each
pair of them, again and again.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Sequence
from types import FrameType

import pytest
from backedge.parsers import shown_text
from backedge.parsers.base import ParserRequest
from backedge.parsers.format import Format
from backedge.parsers.formats.catalog import FORMATS
from backedge.parsers.linear_parsers import LinearParsers, Vocabulary
from hypothesis import given
from hypothesis import strategies as st

from tests.parsers.families.family import TOOLS
from tests.parsers.fuzzing import fuzz

SIGNS = ("{", "}", "[", "(", '"', "'", "=", ":", ",", "a", "\n", "```", ' "name": "now", ', "now")
# Behind each marker alone; any two of all in the random test.
BEHIND = ("", "{")
LENGTH = 100
# In place of `MAX_READ_AGAIN`, so that short outputs are beyond it.
READ_AGAIN = 4096
# Beyond four times: a bound that is reached on the way makes each step dearer. A square is 4.0.
TOLERANCE = 2.0


@pytest.fixture(autouse=True)
def _read_again_less(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shown_text, "MAX_READ_AGAIN", READ_AGAIN)


def pieces_of(format_: Format) -> list[str]:
    markers = {marker for by_marker in format_.states.values() for marker in by_marker if marker}
    return [*sorted(markers), *SIGNS]


def count_calls(format_: Format, ids: dict[str, int], pieces: Sequence[str], *, cut: bool) -> int:
    """Return how many functions are called to parse `pieces`."""
    parsers = LinearParsers(format_, None, Vocabulary(ids))
    parser = parsers(ParserRequest(tools=list(TOOLS), tool_choice="auto"), [])
    calls = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event.endswith("call")

    sys.setprofile(count)
    try:
        for piece in pieces:
            parser.feed(piece, [ids.get(piece, 0)])
        parser.finish(cut=cut)
    finally:
        sys.setprofile(None)
    return calls


def check_linear(format_: Format, unit: Sequence[str], *, tokens: bool, cut: bool) -> None:
    ids = {piece: number for number, piece in enumerate(pieces_of(format_), 1) if "<" in piece}
    once = list(itertools.islice(itertools.cycle(unit), LENGTH))
    short, long = (
        count_calls(format_, ids if tokens else {}, once * times, cut=cut) for times in (1, 4)
    )
    assert long <= 4 * short * TOLERANCE, (unit, short, long)


every_format = pytest.mark.parametrize("format_", FORMATS, ids=lambda format_: format_.name)
either_way = pytest.mark.parametrize("tokens", [False, True], ids=["text", "tokens"])


@every_format
@either_way
def test_each_marker(format_: Format, tokens: bool) -> None:
    markers = [piece for piece in pieces_of(format_) if piece not in SIGNS]
    for marker, behind in itertools.product(markers, BEHIND):
        unit = [piece for piece in (marker, behind) if piece]
        check_linear(format_, unit, tokens=tokens, cut=False)


@every_format
@either_way
@fuzz(4)
@given(data=st.data(), cut=st.booleans())
def test_any_two(format_: Format, tokens: bool, data: st.DataObject, cut: bool) -> None:
    unit = data.draw(st.lists(st.sampled_from(pieces_of(format_)), min_size=2, max_size=2))
    check_linear(format_, unit, tokens=tokens, cut=cut)
