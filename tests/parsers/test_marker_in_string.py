"""A marker token in an open string: what follows decides whether it ends the call."""

from __future__ import annotations

import json

import pytest
from backedge.base.limits import MAX_UNDECIDED_OUTPUT
from backedge.parsers.events import Event, ToolCallCut
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.samples.sample import Call, Outcome
from tests.parsers import driver
from tests.parsers.event_outcome import join_outcome
from tests.parsers.families import FAMILIES
from tests.parsers.families.family import function
from tests.parsers.fuzzing import fuzz

TOOLS = [function("f", a="string", b="integer"), function("g", b="integer")]
# Nobody closed the string: the call stays open, with what was written of it.
F = Call("f", '{"a": "x')
G = Call("g", {"b": 1})


def parse(
    name: str, output: str, size: int, *, cut: bool = False, tokens: bool = True
) -> list[Event]:
    """Feed `output`, whose markers are tokens, with the text between them in pieces of `size`."""
    family = FAMILIES[name]
    ids = family.ids if tokens else {}
    return driver.read(family.names, output, size, ids=ids, tools=TOOLS, cut=cut)


KIMI = "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>"
KIMI_G = '<|tool_call_begin|>functions.g:1<|tool_call_argument_begin|>{"b": 1}<|tool_call_end|>'
KIMI_END = "<|tool_calls_section_end|>"
DEEPSEEK = "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>"
DEEPSEEK_G = '<｜tool▁call▁begin｜>g<｜tool▁sep｜>{"b": 1}<｜tool▁call▁end｜><｜tool▁calls▁end｜>'
HERMES = '<tool_call>{"name": "f", "arguments": '
HERMES_G = '<tool_call>{"name": "g", "arguments": {"b": 1}}</tool_call>'
HARMONY = "<|channel|>commentary to=functions.f<|message|>"
FINAL = "<|start|>assistant<|channel|>final<|message|>Done."
LONG = "y" * (2 * MAX_UNDECIDED_OUTPUT)
GEMMA = '<|tool_call>call:f{a:<|"|>x'


@pytest.mark.parametrize("size", [1, 5, 1 << 20])
@pytest.mark.parametrize(
    ("name", "output", "expected"),
    [
        ("kimi_k2", KIMI + '{"a": "x<|tool_call_end|>' + KIMI_G + KIMI_END, (None, (F, G))),
        ("kimi_k2", KIMI + '{"a": "x<|tool_call_end|>' + KIMI_END + "Done.", ("Done.", (F,))),
        ("kimi_k2", KIMI + '{"a": "x<|tool_call_end|>', (None, (F,))),
        (
            "kimi_k2",
            KIMI + '{"a": "x<|tool_call_end|> y", "b": 1}<|tool_call_end|>' + KIMI_END,
            (None, (Call("f", {"a": "x<|tool_call_end|> y", "b": 1}),)),
        ),
        (
            "kimi_k2",
            KIMI + '{"a": "x<|tool_call_end|>"}<|tool_call_end|>' + KIMI_END,
            (None, (Call("f", {"a": "x<|tool_call_end|>"}),)),
        ),
        (
            "deepseek_v31",
            DEEPSEEK + '{"a": "x<｜tool▁call▁end｜>' + DEEPSEEK_G,
            (None, (F, G)),
        ),
        ("hermes", HERMES + '{"a": "x</tool_call>\n' + HERMES_G, (None, (F, G))),
        ("hermes", HERMES + '{"a": "x</tool_call>\nHe said "no".', ('He said "no".', (F,))),
        ("hermes", HERMES + '{"a": "x</tool_call>\nDone.', ("Done.", (F,))),
        (
            "hermes",
            HERMES + '{"a": "x</tool_call> \\"y\\" <tool_call>"}}</tool_call>',
            (None, (Call("f", {"a": 'x</tool_call> "y" <tool_call>'}),)),
        ),
        ("openai", HARMONY + '{"a": "x<|call|>' + FINAL, ("Done.", (F,))),
        (
            "openai",
            HARMONY + '{"a": "<|end|>hi<|call|>"}<|call|>',
            (None, (Call("f", {"a": "<|end|>hi<|call|>"}),)),
        ),
        (
            "gemma4",
            GEMMA + "}<tool_call|><|tool_call>call:g{b:1}<tool_call|>",
            (None, (Call("f", '{"a":"x}'), G)),
        ),
        (
            "gemma4",
            GEMMA + '<tool_call|> y<|"|>,b:1}<tool_call|>',
            (None, (Call("f", {"a": "x<tool_call|> y", "b": 1}),)),
        ),
    ],
)
def test_what_follows_decides(
    name: str, output: str, expected: tuple[str | None, tuple[Call, ...]], size: int
) -> None:
    assert join_outcome(parse(name, output, size)) == Outcome(None, *expected)


@pytest.mark.parametrize("size", [1, 7, 1 << 20])
@pytest.mark.parametrize("text", [LONG, LONG + ' <tool_call> "x" </tool_call>\n' * 3 + LONG])
def test_long_text_is_part_of_the_string(text: str, size: int) -> None:
    arguments = {"a": f"x</tool_call>{text}"}
    output = HERMES + json.dumps(arguments) + "}</tool_call>"
    assert join_outcome(parse("hermes", output, size)).calls == (Call("f", arguments),)


def test_a_limit_leaves_it_undecided() -> None:
    events = parse("hermes", HERMES + '{"a": "x</tool_call> and', 1, cut=True)
    assert events[-1] == ToolCallCut(0, "</tool_call> and")


PIECES = (
    '"', "}", "{", "}}", ",", ":", " ", "\\", '\\"', "x", "f", "functions.g:1", '"b"', "1", "\n",
    "to=functions.g", "words in between", LONG,
)  # fmt: skip
STARTS = {
    "kimi_k2": KIMI + '{"a": "',
    "hermes": HERMES + '{"a": "',
    "openai": HARMONY + '{"a": "',
    "gemma4": GEMMA,
    "deepseek_v3": DEEPSEEK.replace("f<", "function<") + 'f\n```json\n{"a": "',
    "deepseek_v31": DEEPSEEK + '{"a": "',
    "mistral": '[TOOL_CALLS]f[ARGS]{"a": "',
    "lfm2": "<|tool_call_start|>[f(a='",
}


@pytest.mark.parametrize("name", STARTS)
@fuzz(60)
@given(data=st.data(), cut=st.booleans())
def test_the_cut_does_not_matter(name: str, data: st.DataObject, cut: bool) -> None:
    family = FAMILIES[name]
    piece = st.sampled_from([*family.markers, *family.special]) | st.sampled_from(PIECES)
    output = STARTS[name] + "".join(data.draw(st.lists(piece, max_size=30)))
    events = parse(name, output, 1, cut=cut)
    assert events == parse(name, output, 1 << 20, cut=cut)
    assert events == parse(name, output, 5, cut=cut)


@pytest.mark.parametrize("name", ["deepseek_v31", "hermes", "kimi_k2", "mistral"])
@fuzz(60)
@given(data=st.data())
def test_no_doubt_completes_a_call(name: str, data: st.DataObject) -> None:
    """A call is complete only if its JSON is, whatever markers stand in its open string."""
    family = FAMILIES[name]
    open_pieces = [piece for piece in PIECES if piece == '\\"' or not {'"', "\\"} & set(piece)]
    piece = st.sampled_from([*family.markers, *family.special]) | st.sampled_from(open_pieces)
    pieces = data.draw(st.lists(piece, max_size=12))
    last = data.draw(st.sampled_from(["", '"}', '"}}', LONG + '"}}<|tool_call_end|></tool_call>']))
    output = STARTS[name] + "".join([*pieces, last])
    calls = join_outcome(parse(name, output, 5)).calls
    if calls and isinstance(calls[0].arguments, dict):
        assert join_outcome(parse(name, output, 5, tokens=False)).calls[:1] == calls[:1]
