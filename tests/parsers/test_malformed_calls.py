"""A call is complete only if delimiters alone make its arguments JSON; else it stays open."""

from __future__ import annotations

import itertools
import json
import re
from typing import Any

import pytest
from backedge.base.limits import MAX_MARKUP
from backedge.parsers.base import MalformedCalls, ParserNames, ParserRequest
from backedge.parsers.events import (
    Content,
    Event,
    ToolCallArguments,
    ToolCallCut,
    ToolCallMalformed,
    ToolCallStarted,
    join,
)
from backedge.parsers.forced_calls import wrap_forced_calls
from backedge.parsers.linear_parsers import Vocabulary
from backedge.parsers.parser_lookup import linear_parsers
from hypothesis import example, given
from hypothesis import strategies as st

from tests.parsers import driver
from tests.parsers.families import FAMILIES

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "path": {"type": "string"},
        "city": {"type": "string"},
        "n": {"type": "integer"},
        "tags": {"type": "array"},
    },
}
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": SCHEMA}}]
# The text around the arguments of one call.
FRAMES = {
    "hermes": ('<tool_call>{"name": "f", "arguments": ', "}</tool_call>"),
    "kimi_k2": (
        "<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>",
        "<|tool_call_end|>",
    ),
    "deepseek_v31": (
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>",
        "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    ),
    "mistral": ("[TOOL_CALLS]f[ARGS]", ""),
    "lfm2": ('<|tool_call_start|>[{"name": "f", "arguments": ', "}]<|tool_call_end|>"),
    "gemma4": ("<|tool_call>call:f", "<tool_call|>"),
}
# Arguments whose repair would need a guess.
MALFORMED = [
    '{"path": "x, "n": 5}',
    '{"other" "Oslo"}',
    '{"other: "Oslo"}',
    '{"path": ""/a" b, "n": 5}',
    '{"n": }',
    '{"n": , "path": "x"}',
    '{"path"}',
    '{"path": "x"; "n": 5}',
    '{path": "x", "n": 5}',
    '{""path": "x", "n": 5}',
    '{"path"": "x", "n": 5}',
    '{"path": "x"", "n": 5}',
    '{"path":: "x", "n": 5}',
    '{{"path": "x", "n": 5}',
]
# Arguments that delimiters alone make JSON, with their value.
REPAIRED = [
    ('{"path": "x" "n": 5}', {"path": "x", "n": 5}),
    ('{"path": "x", "n": 5,}', {"path": "x", "n": 5}),
    ('{"path": "x",, "n": 5}', {"path": "x", "n": 5}),
    ("{'path': 'x', n: 5}", {"path": "x", "n": 5}),
    ('{"path": "a\nb", "n": "5"}', {"path": "a\nb", "n": 5}),
    ('{"path": None, "n": True}', {"path": None, "n": True}),
    # A declared key without its second quote or its colon, and a first quote that is doubled.
    ('{"path: "x", "n": 5}', {"path": "x", "n": 5}),
    ('{"path" "/a b", "n": 5}', {"path": "/a b", "n": 5}),
    ('{"path": ""/a b", "n": 5}', {"path": "/a b", "n": 5}),
    ('{"path": "", "n": 5}', {"path": "", "n": 5}),
]
# What the call object around arguments may lack, or have twice.
FRAME_SLIPS = [
    '{name": "f", "arguments": {"n": 5}}',
    '{"name: "f", "arguments": {"n": 5}}',
    '{"name" "f", "arguments": {"n": 5}}',
    '{"name": f", "arguments": {"n": 5}}',
    '{"name": "f, "arguments": {"n": 5}}',
    '{"name": "f", "arguments"{ :"n": 5}}',
    '{"name": "f", "arguments": "n": 5}}',
    '{"name": "f", "arguments": "{n": 5}}',
    '"name": "f", "arguments": {"n": 5}}',
    '{{"name": "f", "arguments": {"n": 5}}',
]
GRANITE = '<|tool_call|>[{"name": "f", "arguments": {"n": 1}, {"name": "f", "arguments": {"n": 2}}]'
INVOKE = '<invoke name="f"><parameter name="path">a</parameter></invoke>'
M3 = "]<]minimax[>["
# A format, a call of its section, its section, and a call that cannot be read.
SECTIONS = [
    ("minimax_m2", INVOKE, "<minimax:tool_call>{}</minimax:tool_call>", "<invoke f>x</invoke>"),
    ("dots", INVOKE, "<dots_function_call>{}</dots_function_call>", 'invoke name="f">x</invoke>'),
    (
        "deepseek_v4",
        '<｜DSML｜invoke name="f"></｜DSML｜invoke>',
        "<｜DSML｜tool_calls>{}</｜DSML｜tool_calls>",
        '<invoke name="f">x</invoke>',
    ),
    (
        "minimax_m3",
        f'{M3}<invoke name="f">{M3}<path>a{M3}</path>{M3}</invoke>',
        f"{M3}<tool_call>{{}}{M3}</tool_call>",
        f'<invoke name="f">{M3}<path>x',
    ),
    (
        "kimi_k2",
        "<|tool_call_begin|>f:0<|tool_call_argument_begin|>{}<|tool_call_end|>",
        "<|tool_calls_section_begin|>{}<|tool_calls_section_end|>",
        'f:0{"path": "x"}',
    ),
]
STEP3 = "<｜tool_call_begin｜>function<｜tool_sep｜>"
# A format, a call, and the header of a call that cannot be read.
HEADERS = [
    ("step3", STEP3 + '<steptml:invoke name="f"></steptml:invoke>', STEP3 + "steptml:invoke f={}"),
    (
        "gigachat3",
        '<|message_sep|>function call<|role_sep|>{"name": "f", "arguments": {}}',
        '<|message_sep|>function call{"name": "f", "arguments": {}}',
    ),
]
JSON_FRAMES = [name for name in FRAMES if name != "gemma4"]


def parse(name: str, output: str, size: int = 0, mode: MalformedCalls = "open") -> list[Event]:
    return driver.read(name, output, size, tools=TOOLS, malformed_calls=mode)


def arguments(events: list[Event], index: int = 0) -> str:
    """Return the arguments of one call, as sent."""
    return "".join(
        event.text
        for event in events
        if isinstance(event, ToolCallArguments) and event.index == index
    )


def malformed(events: list[Event]) -> list[int]:
    """Return the numbers of the malformed calls."""
    return [event.index for event in events if isinstance(event, ToolCallMalformed)]


def is_open(events: list[Event]) -> bool:
    """Whether a call was left open."""
    return any(isinstance(event, ToolCallMalformed | ToolCallCut) for event in events)


def is_json(text: str) -> bool:
    """Whether `text` is JSON."""
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("size", [0, 1, 3])
@pytest.mark.parametrize("text", MALFORMED)
@pytest.mark.parametrize("name", FRAMES)
def test_what_delimiters_cannot_mend_goes_out_as_written_and_stays_open(name, text, size):
    before, after = FRAMES[name]
    events = parse(name, before + text + after, size)
    sent = arguments(events)
    assert malformed(events) == [0]
    assert not is_json(sent)
    assert re.findall(r"\w", text) == re.findall(r"\w", sent)


@pytest.mark.parametrize("size", [0, 1, 3])
@pytest.mark.parametrize(("text", "value"), REPAIRED)
@pytest.mark.parametrize("name", JSON_FRAMES)
def test_delimiters_are_added_and_dropped(name, text, value, size):
    before, after = FRAMES[name]
    events = parse(name, before + text + after, size)
    assert not is_open(events)
    assert json.loads(arguments(events)) == value


@pytest.mark.parametrize("size", [0, 1, 3])
@pytest.mark.parametrize("text", FRAME_SLIPS)
@pytest.mark.parametrize("name", ["hermes", "granite", "internlm", "phi4_mini_json", "xlam"])
def test_a_call_object_with_one_delimiter_too_many_or_too_few_is_open_or_text(name, text, size):
    frames = {
        "hermes": ("<tool_call>", "</tool_call>"),
        "granite": ("<tool_call>[", "]"),
        "internlm": ("<|action_start|><|plugin|>", "<|action_end|>"),
        "phi4_mini_json": ("functools[", "]"),
        "xlam": ("[", "]"),
    }
    before, after = frames[name]
    events = parse(name, before + text + after, size)
    assert is_open(events) or not [event for event in events if isinstance(event, ToolCallStarted)]


@pytest.mark.parametrize("size", [0, 1, 3])
def test_a_brace_after_the_last_one_is_dropped(size):
    before, after = FRAMES["hermes"]
    events = parse("hermes", before + '{"n": 5}}' + after, size)
    assert not is_open(events)
    assert json.loads(arguments(events)) == {"n": 5}


@pytest.mark.parametrize("size", [0, 1, 3])
def test_a_call_without_its_last_brace_does_not_lose_the_next_one(size):
    events = parse("granite", GRANITE, size)
    assert [json.loads(arguments(events, index)) for index in range(2)] == [{"n": 1}, {"n": 2}]
    assert not any(isinstance(event, Content) for event in events)


@pytest.mark.parametrize("size", [0, 1, 3])
@pytest.mark.parametrize(("name", "call", "section", "unread"), SECTIONS)
def test_after_a_call_one_that_cannot_be_read_is_shown_and_words_are_not(
    name, call, section, unread, size
):
    for between, content in [
        (f"\n{unread}\n", f"\n{unread}\n"),
        (f"\nnow {unread}", f"\nnow {unread}"),
        ("\nnow\n", ""),
        ("</end>\n", ""),
        ("x" * MAX_MARKUP + "\n", ""),
        (unread + "x" * MAX_MARKUP, unread + "x" * MAX_MARKUP),
    ]:
        events = parse(name, section.format(call + between + call), size)
        assert [event.index for event in events if isinstance(event, ToolCallStarted)] == [0, 1]
        shown = "".join(event.text for event in events if isinstance(event, Content))
        assert shown == content
        events = parse(name, section.format(call + between), size)
        shown = "".join(event.text for event in events if isinstance(event, Content))
        assert shown.startswith(content)


@pytest.mark.parametrize("size", [0, 1, 3])
@pytest.mark.parametrize("around", ["{}", "{call}{}", "{call}{}{call}"])
@pytest.mark.parametrize(("name", "call", "header"), HEADERS)
def test_a_header_with_the_marks_of_a_call_is_shown(name, call, header, around, size):
    section = "<｜tool_calls_begin｜>{}<｜tool_calls_end｜>" if name == "step3" else "{}"
    events = parse(name, section.format(around.format(header, call=call)), size)
    shown = "".join(event.text for event in events if isinstance(event, Content))
    assert header.rpartition(">")[2] in shown
    calls = [event for event in events if isinstance(event, ToolCallStarted)]
    assert len(calls) == around.count("call")
    assert not is_open(events)


@pytest.mark.parametrize("size", [0, 1, 3])
@pytest.mark.parametrize(
    "name", ["glm45", "ling3", "iquest_q1", "hy_v3", "k2_horizon", "poolside_v1"]
)
def test_the_words_of_an_open_call_keep_their_order(name, size):
    family = FAMILIES[name]
    assert family.write is not None
    output = family.write("", [("f", {"path": "alpha", "city": "beta"})])
    (value,) = (marker for marker in family.markers if re.search(r"<[^/]*value", marker))
    events = parse(name, output.replace(value, ", ", 1), size)
    assert is_open(events)
    assert re.findall(r"[a-z]+", arguments(events)) == ["path", "alpha", "city", "beta"]


@pytest.mark.parametrize("size", [0, 1, 3])
@pytest.mark.parametrize(
    ("name", "output", "value"),
    [
        ("mistral", '[TOOL_CALLS] {"name": "f", "arguments": {"n": 1}}', {"n": 1}),
        (
            "longcat",
            '<longcat_tool_call>[{"name": "f", "arguments": {"n": 1}}]</longcat_tool_call>',
            {"n": 1},
        ),
        ("pythonic", "[f(n=- 3)]", {"n": -3}),
        ("pythonic", "[f(n=3,  # a (comment, ] n=4\n path='x')]", {"n": 3, "path": "x"}),
        ("pythonic", "[f(path='x', # last\n)]", {"path": "x"}),
        ("pythonic", "[f(path='a\r\nb')]", {"path": "a\r\nb"}),
        (
            "lfm2",
            "<|tool_call_start|>[f(path='a\r\nb')]<|tool_call_end|>",
            {"path": "a\r\nb"},
        ),
    ],
)
def test_other_ways_to_write_a_call(name, output, value, size):
    events = parse(name, output, size)
    assert json.loads(arguments(events)) == value
    assert not is_open(events)
    assert not [event for event in events if isinstance(event, Content)]


@pytest.mark.parametrize("name", ["llama3_json", "xlam"])
def test_json_without_a_calls_keys_is_the_answer_from_its_first_key(name):
    output = '{"city": "Paris", "temp": 3' if name != "xlam" else '[{"city": "Paris", "temp": 3'
    request = ParserRequest(tools=TOOLS, tool_choice="auto")
    parser = linear_parsers(ParserNames(name), Vocabulary())(request, [])
    shown = [event for char in output[:20] for event in parser.feed(char)]
    assert join(shown) == [Content(output[:20])]
    shown += [*parser.feed(output[20:]), *parser.finish(cut=True)]
    assert join(shown) == [Content(output)]


@pytest.mark.parametrize("name", ["hermes", "kimi_k2", "deepseek_v31"])
def test_the_next_call_is_complete(name):
    before, after = FRAMES[name]
    events = parse(name, before + '{"n": }' + after + before + '{"n": 5}' + after)
    assert malformed(events) == [0]
    assert json.loads(arguments(events, 1)) == {"n": 5}


@pytest.mark.parametrize(
    ("choice", "output"),
    [
        ({"type": "function", "function": {"name": "f"}}, '{"cmd": }'),
        ("required", '[{"name": "f", "parameters": {"cmd": }}]'),
    ],
)
def test_a_forced_call_gets_no_null_that_nobody_wrote(choice, output):
    request = ParserRequest(tools=TOOLS, tool_choice=choice, json_calls=True)
    inner = linear_parsers(ParserNames("hermes"), Vocabulary())(request, [])
    parser = wrap_forced_calls(inner, request)
    events = join([*parser.feed(output), *parser.finish()])
    assert is_open(events)
    assert "null" not in arguments(events)


@pytest.mark.parametrize("size", [0, 1, 3])
@pytest.mark.parametrize(
    ("name", "output", "sent"),
    [
        (
            "olmo3",
            "<function_calls>f(n=1, path=, city='x')</function_calls>",
            '{"n": 1, "path": , ',
        ),
        (
            "qwen3_coder",
            "<tool_call><function=f><parameter=tags>[1, 2] and more</parameter></function>",
            '{"tags": [1, 2]and more',
        ),
    ],
)
def test_values_that_delimiters_cannot_mend(name, output, sent, size):
    events = parse(name, output, size)
    assert malformed(events) == [0]
    assert arguments(events).startswith(sent)
    assert not is_json(arguments(events))


SLIPS = st.tuples(st.sampled_from(["leave out", "double", "swap"]), st.integers(0, 60))


def slip(text: str, kind: str, position: int) -> str:
    """Return `text` with one punctuation mark left out, doubled or swapped with the next."""
    marks = [at for at, char in enumerate(text) if char in '{}[]",:']
    at = marks[position % len(marks)]
    match kind:
        case "leave out":
            return text[:at] + text[at + 1 :]
        case "double":
            return text[:at] + text[at] + text[at:]
        case _:
            return text[:at] + text[at + 1 : at + 2] + text[at] + text[at + 2 :]


@given(
    name=st.sampled_from(JSON_FRAMES),
    value=st.fixed_dictionaries(
        {"path": st.text("ab1 /.", min_size=1, max_size=5), "n": st.integers(0, 99)},
        optional={"tags": st.lists(st.integers(0, 9), max_size=3)},
    ),
    slips=st.lists(SLIPS, min_size=1, max_size=2),
    cuts=st.sets(st.integers(1, 120), max_size=8),
)
@example("hermes", {"n": 0, "path": "1"}, [("swap", 9)], set())
def test_a_call_with_slips_is_json_or_open_however_it_is_cut(name, value, slips, cuts):
    text = json.dumps(value)
    for kind, position in slips:
        text = slip(text, kind, position)
    before, after = FRAMES[name]
    output = before + text + after
    events = parse(name, output)
    sent = arguments(events)
    started = any(isinstance(event, ToolCallStarted) for event in events)
    if started and not is_open(events):
        assert is_json(sent)
    if malformed(events) == [0]:
        assert not is_json(sent)
    pieces = sorted({0, len(output), *(cut for cut in cuts if cut < len(output))})
    request = ParserRequest(tools=TOOLS, tool_choice="auto")
    parser = linear_parsers(ParserNames(name), Vocabulary())(request, [])
    again: list[Event] = []
    for start, end in itertools.pairwise(pieces):
        again += parser.feed(output[start:end])
    assert join(again + parser.finish()) == events


GUESSED = [
    ("hermes", '{"n": }', {"n": None}),
    ("hermes", '{"path": "x"; "n": 5}', {"path": "x", "n": 5}),
    ("mistral", '{"city"}', {"city": None}),
]
TAGS = "<tool_call><function=f>{}</function></tool_call>"


@pytest.mark.parametrize(
    ("name", "output", "value"),
    [
        *((name, FRAMES[name][0] + text + FRAMES[name][1], value) for name, text, value in GUESSED),
        ("olmo3", "<function_calls>f(n=1, path=)</function_calls>", {"n": 1, "path": None}),
        ("qwen3_coder", TAGS.format("<parameter=tags>[1, 2] and</parameter>"), {"tags": [1, 2]}),
        ("qwen3_coder", TAGS.format("<parameter=n>1</parameter>and"), {"n": 1}),
    ],
)
def test_guesses_are_made_if_they_are_asked_for(name, output, value):
    assert malformed(parse(name, output)) == [0]
    events = parse(name, output, mode="repair")
    assert not is_open(events)
    assert json.loads(arguments(events)) == value


@pytest.mark.parametrize(
    ("choice", "output"),
    [
        ({"type": "function", "function": {"name": "f"}}, '{"cmd": }'),
        ("required", '[{"name": "f", "parameters": {"cmd": }}]'),
    ],
)
def test_forced_calls_are_guessed_if_asked_for(choice, output):
    request = ParserRequest(
        tools=TOOLS, tool_choice=choice, json_calls=True, malformed_calls="repair"
    )
    inner = linear_parsers(ParserNames("hermes"), Vocabulary())(request, [])
    parser = wrap_forced_calls(inner, request)
    events = join([*parser.feed(output), *parser.finish()])
    assert json.loads(arguments(events)) == {"cmd": None}


@given(
    name=st.sampled_from(JSON_FRAMES),
    slips=st.lists(SLIPS, min_size=1, max_size=2),
    size=st.integers(0, 3),
)
def test_a_complete_call_is_json_even_if_it_is_guessed(name, slips, size):
    text = '{"path": "a b", "n": 5, "tags": [1, 2]}'
    for kind, position in slips:
        text = slip(text, kind, position)
    before, after = FRAMES[name]
    events = parse(name, before + text + after, size, "repair")
    assert not malformed(events)
    if ToolCallStarted(0, "f") in events and not is_open(events):
        assert is_json(arguments(events))


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_a_brace_that_may_be_in_a_string_leaves_the_first_call_of_a_list_open(size: int) -> None:
    """The quote and the brace after it are swapped; the next call shows that a brace is missing."""
    output = (
        '<tool_calls>[{"name": "f", "arguments": {"path": "a}"}, '
        '{"name": "f", "arguments": {"path": "b"}}]</tool_calls>'
    )
    events = parse("jamba", output, size)
    started = [event.index for event in events if isinstance(event, ToolCallStarted)]
    assert (started, malformed(events)) == ([0, 1], [0])
