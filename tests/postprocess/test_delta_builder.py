"""Events to deltas: one kind of text in each, calls numbered without gaps, nothing lost."""

import msgspec
import pytest
from backedge.parsers.base import ParserRequest
from backedge.parsers.events import (
    Content,
    Reasoning,
    ToolCallArguments,
    ToolCallCut,
    ToolCallMalformed,
    ToolCallStarted,
)
from backedge.postprocess.delta_builder import DeltaBuilder, aggregate_deltas
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.samples.sample import ADD_NOTE

TEXT = ParserRequest()
CALLS = ParserRequest(tools=[ADD_NOTE], tool_choice="auto")
F = ToolCallStarted(0, "f", "call-f")
G = ToolCallStarted(7, "g", "call-f")  # the parser repeats an id


def build(events, *, trims=False, cut=False, breaks=None):
    builder = DeltaBuilder(0, CALLS if trims else TEXT, breaks)
    for event in events:
        builder.write(event)
    builder.finish("length" if cut else "stop", None, cut=cut)
    return builder.take()


def shown(delta):
    calls = [(call.index, call.function.name, call.function.arguments) for call in delta.tool_calls]
    return delta.reasoning_content, delta.content, calls


KINDS = [
    ([Reasoning("a"), Reasoning("b"), Content("c")], [("ab", None, []), (None, "c", [])]),
    (
        [Content("c"), F, ToolCallArguments(0, "{"), ToolCallArguments(0, "}")],
        [(None, "c", []), (None, None, [(0, "f", "{}")])],
    ),
    ([F, G, ToolCallArguments(7, "1")], [(None, None, [(0, "f", "{}"), (1, "g", "1")])]),
    (
        [F, Content(" ")],
        [(None, None, [(0, "f", "")]), (None, " ", []), (None, None, [(0, None, "{}")])],
    ),
    ([], [(None, None, [])]),
]


@pytest.mark.parametrize(("events", "deltas"), KINDS)
def test_each_delta_holds_one_kind_of_text(events, deltas):
    built = build(events)
    assert [shown(part.delta) for part in built] == deltas
    assert [part.delta.role for part in built] == ["assistant"] + [None] * (len(built) - 1)
    assert [part.finish_reason for part in built] == [None] * (len(built) - 1) + ["stop"]


def test_a_repeated_or_missing_id_is_replaced():
    built = aggregate_deltas(build([F, G, ToolCallStarted(8, "h")]))
    ids = [call.id for call in built.delta.tool_calls]
    assert ids[0] == "call-f"
    assert len(set(ids)) == 3
    assert all(ids)


WHITESPACE = [
    ([Content("a \n"), F], ("a", ["f"])),
    ([Content("a "), Content(" b"), F, Content(" \n"), G], ("a  b", ["f", "g"])),
    ([F, Content("\n c")], ("\n c", ["f"])),
    ([Content("a \n")], ("a \n", [])),
    ([Content(" \n")], (" \n", [])),
]


@pytest.mark.parametrize(("events", "expected"), WHITESPACE)
def test_whitespace_around_calls_is_dropped(events, expected):
    delta = aggregate_deltas(build(events, trims=True)).delta
    assert (delta.content, [call.function.name for call in delta.tool_calls]) == expected


BREAKS = [
    ([Content("a \n"), F], 0, "a \n"),
    ([Content("a \n"), F], 1, "a "),
    ([Content("a\n \n\n"), F], 1, "a\n \n"),
    ([Content("a\n"), F], 2, "a"),
    ([Content(" \n"), F], 0, None),
    ([Content("a"), Reasoning("b"), Content(" \n"), F], 0, "a"),
    ([Content("a\n"), F, Content(" \n"), G], 0, "a\n"),
    ([Content("a\n"), F, Content("b\n"), G], 0, "a\nb\n"),
]


@pytest.mark.parametrize(("events", "breaks", "content"), BREAKS)
def test_text_keeps_what_the_template_does_not_write_before_a_call(events, breaks, content):
    delta = aggregate_deltas(build(events, trims=True, breaks=breaks)).delta
    assert delta.content == content


EXTRA_TEXT = ToolCallMalformed(0, "extra_text")
OUTCOMES = [
    ([F, G], False, False, ["complete", "complete"]),
    ([F, ToolCallArguments(0, '{"a')], True, False, ["cut"]),
    ([F, ToolCallArguments(0, "{}"), Content("text")], True, False, ["complete"]),
    ([F, ToolCallCut(None, "<tool")], True, False, ["complete", "cut"]),
    ([F, G, ToolCallArguments(7, '{"a'), ToolCallCut(7, "")], False, False, ["complete", "cut"]),
    ([F, EXTRA_TEXT, G, ToolCallArguments(7, "{}")], False, False, ["extra_text", "complete"]),
    ([F, ToolCallArguments(0, '{"a')], False, True, ["raw"]),
    ([Content("text")], True, False, []),
]


@pytest.mark.parametrize(("events", "cut", "failed", "outcomes"), OUTCOMES)
def test_outcomes_of_calls(events, cut, failed, outcomes):
    builder = DeltaBuilder(0, CALLS)
    for event in events:
        builder.write(event)
    assert builder.call_outcomes(cut=cut, failed=failed) == outcomes


def test_forbidden_calls_are_counted_and_left_out():
    builder = DeltaBuilder(0, msgspec.structs.replace(CALLS, tool_choice="none"))
    for event in (Content("No. "), F, ToolCallArguments(0, "{}"), G, Content("\nDone.")):
        builder.write(event)
    assert builder.call_outcomes(cut=False, failed=False) == ["dropped", "dropped"]
    builder.finish("stop", None, cut=False)
    assert aggregate_deltas(builder.take()).delta.content == "No. \nDone."


def test_an_answer_sent_whole_shows_an_unfinished_call_as_text():
    events = [Content("Go."), F, ToolCallArguments(0, "{}"), G, ToolCallArguments(7, '{"a": "b')]
    whole = aggregate_deltas(build([*events, ToolCallCut(7, "")], trims=True), {1: ""})
    assert whole.delta.content == 'Go.{"name": "g", "arguments": {"a": "b'
    assert [call.function.name for call in whole.delta.tool_calls] == ["f"]


@pytest.mark.parametrize(
    ("arguments", "is_call"),
    [
        ('{"a": 1}', True),
        ('{"a": ' + "[" * 9000, False),
        ('{"a": ' + "[" * 9000 + "]" * 9000 + "}", True),
        ('{"a": 1e999, "b": ' + "9" * 5000 + "}", True),
        (r'{"a": "\ud83d"}', True),
        ('{"a": NaN}', False),
        ('{"a": "b', False),
        ("", False),
        ("[1]", False),
    ],
)
def test_an_answer_sent_whole_shows_a_call_that_a_limit_has_cut_as_text(arguments, is_call):
    events = [
        F,
        ToolCallArguments(0, "{}"),
        G,
        *([ToolCallArguments(7, arguments)] if arguments else []),
    ]
    whole = aggregate_deltas(build(events, cut=True))
    assert [call.function.name for call in whole.delta.tool_calls] == ["f", "g"][: 1 + is_call]
    assert whole.delta.content == (None if is_call else f'{{"name": "g", "arguments": {arguments}')


@pytest.mark.parametrize(
    ("stopped", "last", "expected"),
    [
        (True, ToolCallCut(7, "x"), {0: "", 1: "x"}),
        (False, ToolCallCut(7, "x"), {0: ""}),
        (True, ToolCallCut(None, "<tool"), {0: ""}),
    ],
)
def test_malformed_calls_stay_open_and_so_does_one_that_the_model_left(stopped, last, expected):
    builder = DeltaBuilder(0, CALLS)
    for event in (F, ToolCallArguments(0, "{]"), ToolCallMalformed(0, "invalid_json"), G, last):
        builder.write(event)
    assert builder.open_calls(stopped=stopped) == expected


@given(
    st.lists(st.sampled_from([Content("x"), Reasoning("y"), None]), max_size=12),
    st.lists(st.booleans(), min_size=1, max_size=5),
)
def test_every_token_id_leaves_once_and_in_order(events, takes):
    """None is a token that leads to no event. `takes`: when the deltas are taken."""
    builder = DeltaBuilder(0, TEXT)
    sent = []
    for number, event in enumerate(events):
        if event is not None:
            builder.write(event)
        builder.annotate(number, None)
        if takes[number % len(takes)]:
            sent += builder.take()
    builder.finish("stop", None, cut=False)
    sent += builder.take()
    assert [token_id for part in sent for token_id in part.token_ids or []] == list(
        range(len(events))
    )
    assert builder.pending == []
