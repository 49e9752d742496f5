"""An argument with markers, quotes, braces and escapes in it streams to its end.

`SILENCE_TOKENS=10000` sets the length of the argument; `python -m tests.parsers.test_silence`
prints the longest silence of each format, as text and as tokens.
"""

from __future__ import annotations

import json
import os
import random
import re

import pytest
from backedge.parsers.base import ParserNames, ParserRequest
from backedge.parsers.events import ToolCallArguments, ToolCallMalformed
from backedge.parsers.format import VALUE_STATES, Format, State
from backedge.parsers.formats.catalog import FORMATS
from backedge.parsers.linear_parsers import Vocabulary
from backedge.parsers.parser_lookup import linear_parsers

from tests.parsers.driver import cut_tokens
from tests.parsers.families.family import Family, function
from tests.slips.systems import WRITERS
from tests.support import write

MOST_TOKENS = 16
# The last word of the argument.
END = "finis"
LENGTH = int(os.environ.get("SILENCE_TOKENS", "1200"))
TOOLS = [function("write", path="string", text="string")]
WORDS = (
    "def f(x):\n    return x",
    "# the end of the call",
    "'it'",
    '"quoted"',
    '{"a": [1, {}]}',
    "\\n",
    "C:\\temp\\x",
    "<b>bold</b>",
    "\n\n",
    ", ",
    "}}",
    "]",
    "print(f'{x!r:>{n}}')",
    'say "a", "b": {"c"}',
    "世界的标记",
)


def mentioned(format_: Format) -> list[str]:
    """Return the markers that a value may mention: all but those that end it."""
    states = format_.states
    known = {marker for by_marker in states.values() for marker in by_marker}
    ends = {marker for state in (*VALUE_STATES, State.ELEMENTS) for marker in states.get(state, ())}
    return sorted(
        marker
        for marker in known
        if re.search(r"\w{3}", marker) and not any(end.strip() in marker for end in ends)
    )


def write_argument(markers: list[str], seed: int) -> str:
    """Return a text of some `LENGTH` tokens of four characters."""
    drawn = random.Random(seed)
    pieces = ["begin"]
    while sum(map(len, pieces)) < 4 * LENGTH:
        pieces.append(drawn.choice(WORDS))
        if markers and drawn.random() < 0.3:
            pieces.append(f"a {drawn.choice(markers)} b")
        if markers and drawn.random() < 0.05:
            pieces.append(drawn.choice(markers) * 3)
    return " ".join([*pieces, END])


KINDS = ("text", "tokens")


def measure_silence(family: Family, kind: str) -> int:
    """Return the most tokens in a row that gave no text of the argument."""
    assert family.write is not None
    format_ = next(
        format_ for format_ in FORMATS if family.name in (format_.name, *format_.aliases)
    )
    ids = family.ids if kind == "tokens" else {}
    request = ParserRequest(tools=TOOLS, tool_choice="auto")
    parser = linear_parsers(ParserNames(family.tool_parser), Vocabulary(ids))(request, [])
    arguments = {"path": "a", "text": write_argument(mentioned(format_), seed=len(family.name))}
    written, silence, longest = "", 0, 0
    for piece, token in cut_tokens(family.write("", [("write", arguments)]), ids, 4):
        events = parser.feed(piece, [token])
        assert not any(isinstance(event, ToolCallMalformed) for event in events)
        new = "".join(event.text for event in events if isinstance(event, ToolCallArguments))
        silence = 0 if new or not written or END in written else silence + 1
        longest = max(longest, silence)
        written += new
    parser.finish()
    assert json.loads(written) == arguments
    return longest


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("family", WRITERS, ids=[family.name for family in WRITERS])
def test_an_argument_is_never_silent_for_long(family: Family, kind: str) -> None:
    assert measure_silence(family, kind) <= MOST_TOKENS


def show() -> None:
    for family in WRITERS:
        counts = [f"{measure_silence(family, kind):8}" for kind in KINDS]
        write(f"{family.name:20}{''.join(counts)}")


if __name__ == "__main__":
    show()
