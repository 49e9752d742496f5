"""A call in open reasoning was a thought if the end of the thought follows; else it is a call."""

from __future__ import annotations

import pytest
from backedge.base.limits import MAX_CONSIDERED
from backedge.parsers.base import ParserNames, ParserRequest
from backedge.parsers.considered_call import ConsideredCall
from backedge.parsers.events import (
    Content,
    Event,
    Reasoning,
    ToolCallArguments,
    ToolCallCut,
    ToolCallStarted,
)
from backedge.parsers.linear_parsers import Vocabulary
from backedge.parsers.parser_lookup import linear_parsers
from hypothesis import given
from hypothesis import strategies as st

from tests.parsers import driver
from tests.parsers.families import FAMILIES
from tests.parsers.families.family import TOOLS, Family
from tests.parsers.fuzzing import fuzz

# Families whose thoughts have an end of their own; in channels a call is a message of its own.
THINKING = [
    family
    for family in FAMILIES.values()
    if family.write is not None
    and family.tags is not None
    and family.name not in {"beam", "inkling", "kimi_k3", "muse_glimmer", "openai", "ernie45"}
]
every_family = pytest.mark.parametrize("family", THINKING, ids=[family.name for family in THINKING])
sizes = pytest.mark.parametrize("size", [1, 5, 1 << 20])


def read(family: Family, output: str, size: int, *, cut: bool = False) -> list[Event]:
    return driver.read(family.names, output, size, cut=cut)


def write_call(family: Family, text: str = "x") -> str:
    assert family.write is not None
    return family.write("", [("write", {"path": "a", "text": text})])


def texts(events: list[Event], kind: type[Reasoning | Content]) -> str:
    return "".join(event.text for event in events if isinstance(event, kind)).strip()


WORDS = st.text("abc xyz.,", min_size=1, max_size=30).map(lambda text: f"I {text} so.")


@sizes
@every_family
@fuzz(5)
@given(before=WORDS, behind=WORDS, times=st.integers(1, 3))
def test_a_call_in_a_thought_that_ends_was_a_thought(
    family: Family, size: int, before: str, behind: str, times: int
) -> None:
    assert family.tags is not None
    considered, call = " and ".join([write_call(family, "no")] * times), write_call(family, "yes")
    assert len(considered) < MAX_CONSIDERED // 2
    thought = f"{family.tags.start}{before} {considered} {behind}{family.tags.end}"
    events = read(family, thought + call, size)
    started = [event for event in events if isinstance(event, ToolCallStarted)]
    assert started == [ToolCallStarted(0, "write", started[0].id)]
    sent = "".join(event.text for event in events if isinstance(event, ToolCallArguments))
    assert "yes" in sent
    assert "no" not in sent
    assert texts(events, Reasoning) == f"{before} {considered} {behind}"


@sizes
@every_family
def test_without_an_end_it_is_a_call(family: Family, size: int) -> None:
    assert family.tags is not None
    output = f"{family.tags.start}I write. {write_call(family)}"
    events = read(family, output, size)
    assert [event.name for event in events if isinstance(event, ToolCallStarted)] == ["write"]
    assert texts(events, Reasoning) == "I write."
    assert texts(events, Content) == ""
    cut = read(family, output, size, cut=True)
    assert not any(isinstance(event, ToolCallStarted) for event in cut)
    assert isinstance(cut[-1], ToolCallCut)


@every_family
def test_a_long_call_without_an_end_is_streamed(family: Family) -> None:
    assert family.tags is not None
    request = ParserRequest(tools=list(TOOLS), tool_choice="auto")
    parser = linear_parsers(family.names, Vocabulary())(request, [])
    call = write_call(family, "word " * MAX_CONSIDERED)
    events = parser.feed(f"{family.tags.start}I write. {call[: 2 * MAX_CONSIDERED]}")
    assert any(isinstance(event, ToolCallStarted) for event in events)
    assert not parser.held or all(held.length < MAX_CONSIDERED for held in parser.held)


def test_text_that_begins_a_call_may_come_with_a_marker_token() -> None:
    """The detokenizer has kept the text; the steps of the same output differ."""
    end = "</tool_call>"
    found = []
    for steps in ([("[", 0), (end, 1)], [(f"[{end}", 1)]):
        request = ParserRequest(tools=list(TOOLS), tool_choice="auto")
        parser = linear_parsers(ParserNames("xlam", "qwen3"), Vocabulary({end: 1}))(request, [])
        output = [("<think>```json\n", 0), *steps, ("more\n", 0), ("```", 0)]
        found.append(driver.run(parser, output))
    assert found[0] == found[1]


def test_what_waits_is_bounded() -> None:
    considered = ConsideredCall("<call>", {"</think>"}, {"</think>"}, 0)
    considered.add("x" * (MAX_CONSIDERED - 1))
    assert not considered.is_full
    considered.add("</think>")
    assert considered.is_full
    assert considered.find_end() == -1  # it is not whole within the bound
