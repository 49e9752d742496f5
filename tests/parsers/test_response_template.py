"""A checkpoint's own description of its answers: the table, its grammar, and what is refused."""

from __future__ import annotations

import itertools
import tracemalloc
from collections.abc import Sequence
from typing import Any

import pytest
from backedge.base.errors import SetupError
from backedge.base.limits import MAX_DESCRIPTION_BYTES
from backedge.parsers.api import stream_parser
from backedge.parsers.base import ParserNames
from backedge.parsers.linear_parsers import Vocabulary
from backedge.parsers.parser_lookup import find_formats
from backedge.parsers.response_template import (
    compile_description,
    find_table,
    name_description,
)
from backedge.parsers.structural_tag import build_tag
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.samples.sample import Call
from tests.parsers.driver import run
from tests.parsers.event_outcome import join_outcome
from tests.parsers.made_up import ANSWER, CALL, MADE_UP, TOOL
from tests.parsers.response_sessions import (
    SESSIONS,
    Session,
    compare,
    compile_all,
    read_sessions,
)

TABLES = 339  # sessions of descriptions that a table holds


def with_calls(**fields: Any) -> dict[str, Any]:
    calls = {**MADE_UP["fields"]["tool_calls"], **fields}
    known = {name: value for name, value in calls.items() if value is not None}
    return {**MADE_UP, "fields": {**MADE_UP["fields"], "tool_calls": known}}


def parse(description: object, pieces: Sequence[str], tools: list[Any], prompt: str = "") -> Any:
    name = name_description(description)
    found = find_formats(name)
    parser = stream_parser(
        tool_call_parser=name if found.tools else None,
        reasoning_parser=name if found.reasoning else None,
        tools=tools,
        vocabulary=Vocabulary(decode=lambda ids: "".join(map(chr, ids))),
        prompt_token_ids=[*map(ord, prompt)],
    )
    return join_outcome(run(parser, pieces))


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


@pytest.mark.parametrize("breaks", [3, 17, 30])
def test_an_end_of_many_line_breaks_costs_little(breaks: int) -> None:
    format_ = compile_description(name_description(with_calls(close="<" + "\n" * breaks + ">")))
    schema = TOOL["function"]["parameters"]
    tracemalloc.start()
    tags = [build_tag(format_, [("get_time", schema)], forced=forced) for forced in (True, False)]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [tag is not None for tag in tags] == [breaks == 3] * 2
    assert peak < 1_000_000


def test_without_tools_markup_of_calls_is_no_text() -> None:
    assert parse(MADE_UP, [ANSWER], []).content == "A moment."


@pytest.mark.parametrize("answer", ['{"a": 1}', '[{"name": "f"}]'])
@pytest.mark.parametrize("thought", ["", "<|muse|>Hm.<|hush|>"])
def test_an_answer_held_to_json_is_content(answer: str, thought: str) -> None:
    for tools in ([], [TOOL]):
        assert parse(MADE_UP, list(thought + answer), tools).content == answer


WITHOUT_CONTENT = {name: part for name, part in MADE_UP["fields"].items() if name != "content"}


@given(st.lists(st.integers(0, 99), max_size=12))
def test_a_call_that_cannot_be_read_is_content_after_a_thought(cuts: list[int]) -> None:
    text = f"<|muse|>Hm.<|hush|>\n<|act|>no call<|hush|>{ANSWER.partition('<|hush|>')[2]}"
    at = sorted({0, *(cut for cut in cuts if cut < len(text)), len(text)})
    pieces = [text[begin:end] for begin, end in itertools.pairwise(at)]
    found = parse({**MADE_UP, "fields": WITHOUT_CONTENT}, pieces, [TOOL])
    assert found.reasoning == "Hm."
    assert found.content.startswith("<|act|>no call")
    assert [call.name for call in found.calls] == ["get_time"]


BEFORE, ZONE, DAYS = "<|act|>get_time<|with|>", "<arg zone>Rome</arg>", "<arg days>3</arg>"


@pytest.mark.parametrize("words", ["note: soon", "\njunk\n", "It's (so), no? " * 9])
@given(cuts=st.lists(st.integers(1, 300), max_size=9))
def test_words_between_closed_parameters_are_dropped(words: str, cuts: list[int]) -> None:
    for text in (
        f"{BEFORE}{ZONE}{words}{DAYS}<|hush|>",
        f"{BEFORE}{ZONE}{DAYS}{words}<|hush|>",
    ):
        at = sorted({0, *(cut for cut in cuts if cut < len(text)), len(text)})
        pieces = [text[begin:end] for begin, end in itertools.pairwise(at)]
        found = parse(MADE_UP, pieces, [TOOL])
        assert found.calls == (Call("get_time", {"zone": "Rome", "days": 3}),)
        assert found.content is None


@pytest.mark.parametrize(
    "behind",
    [
        " to end it</arg><|hush|>",
        f" to end it</arg>{DAYS}<|hush|>",
        ' days">3<|hush|>',
        " days=3<|hush|>",
        " to end it",
        f" to end it{BEFORE}{ZONE}<|hush|>",
        f" words{' and words' * 200}<|hush|>",
    ],
)
@given(cuts=st.lists(st.integers(1, 120), max_size=9))
def test_words_with_a_mark_leave_the_call_open_and_go_out(behind: str, cuts: list[int]) -> None:
    text = BEFORE + ZONE + behind
    at = sorted({0, *(cut for cut in cuts if cut < len(text)), len(text)})
    pieces = [text[begin:end] for begin, end in itertools.pairwise(at)]
    arguments = parse(MADE_UP, pieces, [TOOL]).calls[0].arguments
    assert isinstance(arguments, str)
    assert behind.removesuffix("<|hush|>").split("<")[0].strip() in arguments


def test_a_word_in_place_of_a_required_parameter_leaves_the_call_open() -> None:
    required = {**TOOL["function"]["parameters"], "required": ["zone", "days"]}
    tool = {"type": "function", "function": {**TOOL["function"], "parameters": required}}
    found = parse(MADE_UP, [f"{BEFORE}{ZONE} days 3 <|hush|>"], [tool])
    assert isinstance(found.calls[0].arguments, str)


@pytest.mark.parametrize("thought", ["", "<|muse|>Hm.<|hush|>"])
def test_json_is_content_without_a_field_for_it(thought: str) -> None:
    found = parse({**MADE_UP, "fields": WITHOUT_CONTENT}, list(thought + '{"a": 1}'), [TOOL])
    assert found.content == '{"a": 1}'


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
    found = parse(MADE_UP, [answer], [TOOL], prompt)
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


# Where ours differs from transformers' recorded answer, by class; docs/decisions/0030 says why.
# A session is named by its template and its own name; "*" is any template.
DIFFERENT = {
    "texts": """
        shapes/literal-anchors-json-tools#call-in-content synthetic/base#two-say
        synthetic/base#two-think synthetic/base#say-tool-say trl/glm4moe#user-close""",
    "unread calls": """
        hf-tests/qwen3_template#call-cut-in-name hf-tests/_XML_STRING_ARGS_TEMPLATE#call-cut-in-name
        hf-tests/qwen3_template#json-call-near-miss
        hf-tests/_XML_STRING_ARGS_TEMPLATE#json-call-near-miss""",
    "calls without an end": """
        synthetic/base#tool-at-eos synthetic/base#cut-inside-tag trl/glm4moe#cut
        serve/qwen3_5#call-cut-in-arguments trl/qwen3_5#call-cut-in-arguments
        hf-tests/qwen3_template#call-cut-in-arguments
        hf-tests/_XML_STRING_ARGS_TEMPLATE#call-cut-in-arguments""",
    "repeated keys": """
        synthetic/base#duplicate-key synthetic/base#union-dup-array trl/glm4moe#repeated-key
        serve/qwen3_5#call-duplicate-key trl/qwen3_5#call-duplicate-key
        hf-tests/qwen3_template#call-duplicate-key
        hf-tests/_XML_STRING_ARGS_TEMPLATE#call-duplicate-key""",
    "types": """
        hf-tests/qwen3_template#30 serve/qwen3_5#types-strings serve/qwen3_5#types-native
        hf-tests/_XML_STRING_ARGS_TEMPLATE#types-strings trl/qwen3_5#types-quoted
        hf-tests/qwen3_template#types-quoted serve/qwen3_5#types-edges trl/qwen3_5#types-edges
        hf-tests/qwen3_template#types-edges hf-tests/_XML_STRING_ARGS_TEMPLATE#types-edges
        serve/qwen3_5#json-values trl/qwen3_5#json-values hf-tests/qwen3_template#json-values
        hf-tests/_XML_STRING_ARGS_TEMPLATE#json-values synthetic/base#number-2p53-plus-1""",
    "names": """
        trl/glm4moe#name-without-newline trl/glm4moe#name-runs-into-close
        hf-tests/qwen3_template#dotted-name hf-tests/_XML_STRING_ARGS_TEMPLATE#dotted-name""",
    "a doubled mark of a thought": "hf-tests/qwen3_template#36 hf-tests/smollm_template#46",
    "neither is right": "synthetic/json-body#union-decoded",
    "transformers is right: a prompt that ends within a mark": """
        synthetic/base#prefix-partial-opener hf-tests/qwen3_template#35""",
}


def parse_session(session: Session, size: int) -> Any:
    text = session.text
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    return parse(session.description, pieces, session.tools, session.prompt)


@pytest.mark.skipif(not SESSIONS.is_dir(), reason="there are no sessions beside the checkout")
def test_sessions_of_transformers() -> None:
    tables, refused = compile_all()
    assert (len(tables), len(refused)) == (31, 293)
    sessions = [
        session
        for session in read_sessions()
        if not isinstance(find_table(session.name), SetupError)
    ]
    compare(sessions, parse_session, {id_ for ids in DIFFERENT.values() for id_ in ids.split()})
    assert len(sessions) == TABLES
