"""A checkpoint's own description of its answers: the table, its grammar, and what is refused."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from backedge.base.errors import SetupError
from backedge.base.limits import MAX_DESCRIPTION_BYTES
from backedge.parsers.api import stream_parser
from backedge.parsers.base import ParserNames
from backedge.parsers.linear_parsers import Vocabulary
from backedge.parsers.parser_lookup import find_formats
from backedge.parsers.response_template import compile_description, name_description
from backedge.parsers.structural_tag import build_tag
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.samples.sample import Call
from tests.conformance.cases import OUTSIDE
from tests.parsers.event_outcome import join_outcome
from tests.parsers.families.family import function
from tests.parsers.made_up import ANSWER, CALL, MADE_UP, TOOL

SESSIONS = OUTSIDE / "response_templates" / "hf"


def with_calls(**fields: Any) -> dict[str, Any]:
    calls = {**MADE_UP["fields"]["tool_calls"], **fields}
    known = {name: value for name, value in calls.items() if value is not None}
    return {**MADE_UP, "fields": {**MADE_UP["fields"], "tool_calls": known}}


def parse(description: object, pieces: list[str], tools: list[Any]) -> Any:
    name = name_description(description)
    found = find_formats(name)
    parser = stream_parser(
        tool_call_parser=name if found.tools else None,
        reasoning_parser=name if found.reasoning else None,
        tools=tools,
    )
    events = [event for piece in pieces for event in parser.feed(piece)]
    return join_outcome([*events, *parser.finish()])


@given(st.lists(st.integers(0, len(ANSWER)), max_size=12))
def test_a_made_up_format(cuts: list[int]) -> None:
    at = [0, *sorted(cuts), len(ANSWER)]
    pieces = [ANSWER[begin:end] for begin, end in itertools.pairwise(at)]
    found = parse(MADE_UP, pieces, [TOOL])
    assert found == parse(MADE_UP, [ANSWER], [TOOL])
    assert (found.reasoning, found.content) == ("Which zone?", "A moment.")
    assert found.calls == (Call("get_time", {"zone": "Rome", "days": 3}),)


def test_its_calls_have_a_grammar() -> None:
    format_ = compile_description(name_description(MADE_UP))
    assert format_.spelling is not None
    assert format_.spelling.call == "<|act|>{name}<|with|>{arguments}<|hush|>"
    schema = TOOL["function"]["parameters"]
    assert build_tag(format_, [("get_time", schema)], forced=True) is not None
    assert build_tag(format_, [("get_time", schema)]) is not None


def test_without_tools_markup_of_calls_is_no_text() -> None:
    assert parse(MADE_UP, [ANSWER], []).content == "A moment."


@pytest.mark.parametrize("answer", ['{"a": 1}', '[{"name": "f"}]'])
@pytest.mark.parametrize("thought", ["", "<|muse|>Hm.<|hush|>"])
def test_an_answer_held_to_json_is_content(answer: str, thought: str) -> None:
    for tools in ([], [TOOL]):
        assert parse(MADE_UP, list(thought + answer), tools).content == answer


@pytest.mark.parametrize(
    ("prompt", "answer", "expected"),
    [
        ("<|bot|>", ANSWER, ("Which zone?", "A moment.")),
        ("{}<|bot|><|muse|>", "So<|hush|><|say|>Yes", ("So", "Yes")),
        ("<|bot|><|muse|>So<|hush|>", "{}", (None, "{}")),
        ("<|bot|><|say|>", "Yes", (None, "Yes")),
    ],
)
def test_the_prompt_opens_a_message(
    prompt: str, answer: str, expected: tuple[str | None, str]
) -> None:
    name = name_description(MADE_UP)
    parser = stream_parser(
        tool_call_parser=name,
        reasoning_parser=name,
        tools=[TOOL],
        vocabulary=Vocabulary(decode=lambda ids: "".join(map(chr, ids))),
        prompt_token_ids=[*map(ord, prompt)],
    )
    found = join_outcome([*parser.feed(answer), *parser.finish()])
    assert (found.reasoning, found.content) == expected


def test_the_label_of_metrics_is_short() -> None:
    name = name_description(MADE_UP)
    assert ParserNames(name, name).label == "template+template"


def nest(levels: int) -> list[object]:
    found: list[object] = []
    for _ in range(levels):
        found = [found]
    return found


@pytest.mark.parametrize(
    ("description", "problem"),
    [
        ({**MADE_UP, "version": 2}, "has version 2"),
        ({**MADE_UP, "version": 10**900}, r"has version 10+\.\.\."),
        ({**MADE_UP, "more": 1}, "unknown field `more`"),
        ({"fields": {"content": {}}}, "neither reasoning nor calls"),
        ({"fields": {"x": {"open": "<x>"}}}, "'x' that an answer does not have"),
        ({"fields": {"thinking": {"open": "<t>"}}}, "needs an `open` and a `close`"),
        ({"fields": {"thinking": {"open": "<t>", "close": "u", "content": "int"}}}, "not plain"),
        (with_calls(open_pattern=r"<(?P<name>\w+)(?!x)>"), "'\\('"),
        (with_calls(open_pattern=r"<a(?P<name>(?:a+)+)>"), "'\\('"),
        (with_calls(open_pattern="<a>"), "no group 'name'"),
        (with_calls(close=None), "needs an `open` and a `close`"),
        (with_calls(content="kv-lines", content_args={}), "'kv-lines'"),
        (with_calls(content_args={}), "needs a `tag_pattern`"),
        (with_calls(transform={"name": "{name}"}), "`transform`"),
        (with_calls(transform={"function": {**CALL, "arguments": "{content.x.y}"}}), "takes the"),
        (with_calls(open_pattern="(" * 900), "'\\('"),
        ([], "cannot be used"),
        ({"fields": {"x": "y" * MAX_DESCRIPTION_BYTES}}, "more than 65536 bytes"),
        ({"fields": {"x": "\ud800"}}, "cannot be used"),
        (nest(5000), "cannot be used"),
        (with_calls(close=[f"<{n}>" for n in range(99)]), "is beyond the 32 markers"),
        (with_calls(close="<" * 65), "a marker of more than 64 characters"),
    ],
)
def test_what_no_table_holds_is_refused(description: object, problem: str) -> None:
    with pytest.raises(SetupError, match=problem):
        compile_description(name_description(description))


# Recorded answers of transformers' own parser, with the reason where ours differs. transformers
# keeps the last of several texts and of several values; ours loses none, and leaves a call open
# whose source is incomplete or ambiguous.
DIFFERENT = {
    # Ours loses no text.
    "shapes/literal-anchors-json-tools#call-in-content": "text before a call is kept",
    "synthetic/base#two-say": "both texts are kept",
    "synthetic/base#two-think": "both texts are kept",
    "synthetic/base#say-tool-say": "both texts are kept",
    "trl/glm4moe#user-close": "both texts are kept",
    # Ours completes no call without its end, and guesses nothing (docs/decisions/0010).
    "synthetic/base#tool-at-eos": "a call without its end is text",
    "trl/glm4moe#cut": "a call without its end is text",
    "synthetic/base#cut-inside-tag": "a cut call stays open",
    "synthetic/base#junk-in-tool": "a call with other text stays open",
    "synthetic/base#duplicate-key": "a call with a repeated key stays open",
    "synthetic/base#union-dup-array": "a call with a repeated key stays open",
    "trl/glm4moe#repeated-key": "a call with a repeated key stays open",
    # Ours has the value that the model wrote, of the type that the schema declares.
    "synthetic/base#number-2p53-plus-1": "the number is not rounded",
    "hf-tests/qwen3_template#30": "the schema declares a string",
    "trl/glm4moe#name-without-newline": "a name ends at its parameters",
    "trl/glm4moe#name-runs-into-close": "a name ends at the call's end",
    # transformers has the value that the schema wants.
    "synthetic/base#int-unicode-digit": "JSON has no such digit",
    # Neither: versions of transformers differ, and the schema accepts none of the values.
    "synthetic/json-body#union-decoded": "strings in JSON stay strings in a list",
}


def read_lines(name: str) -> list[Any]:
    paths = sorted(SESSIONS.glob(f"{name}*.jsonl"))
    return [json.loads(line, object_hook=read_float) for path in paths for line in path.open()]


def read_float(found: dict[str, Any]) -> Any:
    return float.fromhex(found["$float"]) if found.keys() == {"$float"} else found


def compile_all() -> tuple[dict[str, Any], dict[str, str]]:
    """Return the descriptions that are tables, and why the others are not, by id."""
    tables, refused = {}, {}
    for row in read_lines("templates"):
        if not row["hf"].get("ok"):
            continue
        try:
            compile_description(name_description(row["template"]))
        except SetupError as error:
            refused[row["id"]] = str(error)
        else:
            tables[row["id"]] = row["template"]
    return tables, refused


def read_expected(final: dict[str, Any]) -> Any:
    calls = [call["function"] for call in final.get("tool_calls", ())]
    return (
        (final.get("thinking") or final.get("reasoning_content") or "").strip(),
        final.get("content", "").strip(),
        [(call["name"], call.get("arguments", {})) for call in calls],
    )


def outcome(description: object, pieces: list[str], tools: list[Any]) -> Any:
    found = parse(description, pieces, tools)
    calls = [(call.name, call.arguments) for call in found.calls]
    return (found.reasoning or "").strip(), (found.content or "").strip(), calls


@pytest.mark.skipif(not SESSIONS.is_dir(), reason="there are no sessions beside the checkout")
def test_sessions_of_transformers() -> None:
    tables, refused = compile_all()
    assert (len(tables), len(refused)) == (31, 293)
    known_tools = json.loads((SESSIONS / "tools.json").read_text())
    compared, different = 0, set()
    for row in read_lines("sessions"):
        kind, *final = row["unary"].get("final", [""])
        if row["template"] not in tables or row["prefix"] or kind != "final":
            continue
        compared += 1
        expected = read_expected(final[0])
        declared = known_tools.get(row.get("tools"), ())
        tools = [tool if "function" in tool else {"function": tool} for tool in declared]
        names = {tool["function"]["name"] for tool in tools}
        # A call of an undeclared function is text.
        tools += [function(name) for name, _ in expected[2] if name not in names] or [TOOL]
        text = row["text"]
        found = [
            outcome(
                tables[row["template"]],
                [text[at : at + size] for at in range(0, len(text), size)],
                tools,
            )
            for size in (1, 3, 7, len(text) + 1)
        ]
        assert all(one == found[0] for one in found), row["id"]
        if found[0] != expected:
            different.add(row["id"])
    assert different == DIFFERENT.keys()
    assert compared == 133
