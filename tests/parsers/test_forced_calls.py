import itertools
import json
import re
from typing import Any

import pytest
from backedge.parsers.base import ParserRequest
from backedge.parsers.events import (
    Content,
    Event,
    ToolCallArguments,
    ToolCallCut,
    ToolCallStarted,
)
from backedge.parsers.forced_calls import wrap_forced_calls
from backedge.parsers.parser_lookup import linear_parsers
from backedge.parsers.passthrough import PassthroughParser
from backedge.postprocess import DetokenizerOptions, PostprocessParams
from backedge.tokenization.detokenizer import read_vocabulary
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.samples.sample import Call
from benchmarks.samples.tokenizers import bpe, encode
from tests.parsers.arguments.reading import CALLS
from tests.parsers.driver import run
from tests.parsers.event_outcome import read_shown
from tests.parsers.families import FAMILIES
from tests.parsers.families.family import TOOLS as WRITE_TOOLS
from tests.parsers.families.family import TURN, Family
from tests.parsers.fuzzing import fuzz
from tests.parsers.sample_model import SampleModel, as_one, every_token, read_outcome
from tests.slips.outcome import find_words
from tests.slips.slips import CHANGES, apply, delimiters

TOOLS = [{"type": "function", "function": {"name": "f"}}]
NAMED = {"type": "function", "function": {"name": "f"}}

CASES = [
    (
        "named",
        NAMED,
        ' {"a": [1, {"b": "}"}]} \n',
        [ToolCallStarted(0, "f"), ToolCallArguments(0, '{"a": [1, {"b": "}"}]}')],
    ),
    ("named, empty", NAMED, "{}", [ToolCallStarted(0, "f"), ToolCallArguments(0, "{}")]),
    (
        "named, cut",
        NAMED,
        '{"a": "b',
        [ToolCallStarted(0, "f"), ToolCallArguments(0, '{"a": "b'), ToolCallCut(0, "")],
    ),
    (
        "named, not whole",
        NAMED,
        '{"a": "b',
        [ToolCallStarted(0, "f"), ToolCallArguments(0, '{"a": "b'), ToolCallCut(0, "")],
    ),
    ("named, no object", NAMED, "sorry", [Content("sorry")]),
    ("named, prose", NAMED, "I can not {do} it.", [Content("I can not {do} it.")]),
    ("named, prose with JSON", NAMED, 'So: {"a": 1}', [Content('So: {"a": 1}')]),
    ("named, a string", NAMED, '"{}"', [Content('"{}"')]),
    ("named, no key", NAMED, " {do} it.", [Content(" {do} it.")]),
    ("named, an open brace", NAMED, " {\n", [Content(" {\n")]),
    ("named, cut behind the brace", NAMED, "{ ", [ToolCallCut(None, "{ ")]),
    ("named, white space", NAMED, " \n", [Content(" \n")]),
    (
        "named, text behind",
        NAMED,
        '{"a": 1}\n and {"b": 2}',
        [ToolCallStarted(0, "f"), ToolCallArguments(0, '{"a": 1}'), Content('\n and {"b": 2}')],
    ),
    (
        "named, an array",
        NAMED,
        ' [{"name": "f", "parameters": {}}]',
        [ToolCallStarted(0, "f"), ToolCallArguments(0, "{}")],
    ),
    ("named, a list", NAMED, " [1]", [Content(" [1]")]),
    ("named, an empty list", NAMED, " [ ]", [Content(" [ ]")]),
    ("required, an empty list", "required", "[]\n", [Content("[]\n")]),
    (
        "required, a nameless element",
        "required",
        '[{"name": "f", "parameters": {}}, {"parameters": {}}, {"name": "g"}]',
        [
            ToolCallStarted(0, "f"),
            ToolCallArguments(0, "{}"),
            Content('{"parameters": {}}, {"name": "g"}]'),
        ],
    ),
    (
        "required, an element that is no object",
        "required",
        '[{"name": "f"}, 7]',
        [ToolCallStarted(0, "f"), ToolCallArguments(0, "{}"), Content("7]")],
    ),
    (
        "required, arguments that are no object",
        "required",
        '[{"name": "f", "parameters": [1]}]',
        [Content('[{"name": "f", "parameters": [1]}]')],
    ),
    (
        "required, two",
        "required",
        '[{"name": "f", "parameters": {"x": "a\\"]}"}}, {"name": "g", "parameters": {}}]',
        [
            ToolCallStarted(0, "f"),
            ToolCallArguments(0, '{"x": "a\\"]}"}'),
            ToolCallStarted(1, "g"),
            ToolCallArguments(1, "{}"),
        ],
    ),
    (
        "required, parameters before name",
        "required",
        '\n[\n{"parameters":{"x":1},"name":"f"}]',
        [ToolCallStarted(0, "f"), ToolCallArguments(0, '{"x":1}')],
    ),
    (
        "required, escaped name",
        "required",
        '[{"name": "\\u0066", "parameters": {}}]',
        [ToolCallStarted(0, "f"), ToolCallArguments(0, "{}")],
    ),
    ("required, not an array", "required", "no calls", [Content("no calls")]),
    ("required, not a call", "required", "[1, 2]", [Content("[1, 2]")]),
    ("required, cut in the name", "required", '[{"name": "f', [ToolCallCut(None, '[{"name": "f')]),
    (
        "required, no name",
        "required",
        '[{"parameters": {"x": 1}',
        [Content('[{"parameters": {"x": 1}')],
    ),
    (
        "required, cut before the name",
        "required",
        '[{"parameters": {"x": 1}',
        [ToolCallCut(None, '[{"parameters": {"x": 1}')],
    ),
]


def parse(pieces: list[str], tool_choice: Any, *, cut: bool = False) -> list[Event]:
    request = ParserRequest(tools=TOOLS, tool_choice=tool_choice, json_calls=True)
    return run(wrap_forced_calls(PassthroughParser(), request), pieces, cut=cut)


@pytest.mark.parametrize(
    ("tool_choice", "text", "expected", "cut"),
    [(*case[1:], ", cut" in case[0]) for case in CASES],
    ids=[case[0] for case in CASES],
)
@given(cuts=st.sets(st.integers(1, 80)))
def test_every_cut_gives_the_same(tool_choice, text, expected, cut, cuts):
    edges = sorted({0, len(text), *(position for position in cuts if position < len(text))})
    pieces = [text[start:end] for start, end in itertools.pairwise(edges)]
    assert parse(pieces, tool_choice, cut=cut) == expected


@given(
    calls=CALLS,
    ascii_only=st.booleans(),
    indent=st.sampled_from([None, 1]),
)
def test_arguments_are_the_json_that_was_written(calls, ascii_only, indent):
    text = json.dumps(
        [{"name": name, "parameters": parameters} for name, parameters in calls],
        ensure_ascii=ascii_only,
        indent=indent,
    )
    events = parse(list(text), "required")
    names = [event.name for event in events if isinstance(event, ToolCallStarted)]
    arguments = [json.loads(event.text) for event in events if isinstance(event, ToolCallArguments)]
    assert (names, arguments) == (
        [name for name, _ in calls],
        [parameters for _, parameters in calls],
    )


@pytest.mark.parametrize("tool_choice", [NAMED, "required"], ids=["named", "required"])
@given(text=st.text(' \n{}[]",:anmef1\\', max_size=30), cuts=st.sets(st.integers(1, 30)))
def test_anything_gives_the_same_at_any_cut(tool_choice: Any, text: str, cuts: set[int]) -> None:
    whole = parse([text], tool_choice)
    edges = sorted({0, len(text), *(position for position in cuts if position < len(text))})
    assert parse([text[a:b] for a, b in itertools.pairwise(edges)], tool_choice) == whole
    assert parse(list(text), tool_choice) == whole
    if not any(isinstance(event, ToolCallStarted) for event in whole):
        assert whole == ([Content(text)] if text else [])


WRITE = {"type": "function", "function": {"name": "write"}}
END = "<|endoftext|>"
# Of other formats: ordinary text to this model.
OTHER_MARKERS = ("<tool_call>", "</think>", "<|channel|>", "[TOOL_CALLS]", "<｜DSML｜invoke")
WITH_CALLS = [family for family in FAMILIES.values() if family.tool_parser is not None]


@pytest.mark.parametrize("family", WITH_CALLS, ids=lambda family: family.name)
@pytest.mark.parametrize("tool_choice", ["required", WRITE], ids=["required", "named"])
@fuzz(4)
@given(data=st.data())
def test_the_model_s_markers_in_strings_are_text(
    family: Family, tool_choice: Any, data: st.DataObject
) -> None:
    """Whatever a token means to the format, in a string of forced JSON it is its own text."""
    markers = tuple(dict.fromkeys((*family.markers, *family.special)))
    tokenizer = bpe(family.markers, (*family.special, END))
    pieces = st.lists(st.sampled_from([*markers, *OTHER_MARKERS, END, "so", " "]), max_size=6)
    arguments = {
        "path": "".join((*markers, *data.draw(pieces))),
        "text": "".join((*data.draw(pieces), " and ".join((*markers, END, "so")))),
    }
    call: Any = arguments
    if tool_choice == "required":
        call = [{"name": "write", "parameters": arguments}]
    request = ParserRequest(tools=list(WRITE_TOOLS), tool_choice=tool_choice, json_calls=True)
    prompt = encode(tokenizer, family.prompt or TURN)
    params = PostprocessParams(
        response_id="r",
        created=1,
        model="m",
        prompt_length=len(prompt),
        detokenizer=DetokenizerOptions(spaces_between_special_tokens=False),
        parser=request,
    )
    names = family.names
    model = SampleModel(
        tokenizer, linear_parsers(names, read_vocabulary(tokenizer)), params, prompt
    )
    token_ids = encode(tokenizer, json.dumps(call, ensure_ascii=False) + END + END)
    for cutter in (every_token, as_one):
        outcome = read_outcome(model.run(cutter(token_ids)))
        assert outcome.calls == (Call("write", arguments),)
        assert not outcome.content


SLIPPED = '[{"name": "write", "parameters": {"path": "alpha", "text": "beta"}}, {"name": "now", '
SLIPPED += '"parameters": {}}]'


@given(data=st.data())
def test_a_slip_in_forced_json_invents_nothing(data: st.DataObject) -> None:
    pieces = [piece for piece in re.split(r"(\W)", SLIPPED) if piece]
    for _ in range(data.draw(st.integers(1, 2))):
        position = data.draw(st.sampled_from(delimiters(pieces)))
        pieces = apply(pieces, position, data.draw(st.sampled_from(CHANGES)))
    text = "".join(pieces)[: data.draw(st.none() | st.integers(1, len(SLIPPED)))]
    request = ParserRequest(tools=list(WRITE_TOOLS), tool_choice="required", json_calls=True)
    parser = wrap_forced_calls(PassthroughParser(), request)
    shown = read_shown(parser.feed(text) + parser.finish())
    assert set(find_words(shown.arguments)) <= set(find_words([text]))
