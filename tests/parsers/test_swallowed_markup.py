"""A value that has swallowed markup leaves its call open; one that mentions markers does not."""

from __future__ import annotations

import json

import pytest
from backedge.parsers.base import ParserNames, ParserRequest
from backedge.parsers.events import (
    Event,
    ToolCallArguments,
    ToolCallCut,
    ToolCallMalformed,
    ToolCallStarted,
)
from backedge.parsers.linear_parsers import Vocabulary
from backedge.parsers.parser_lookup import linear_parsers, tool_format
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.parsers import driver
from tests.parsers.driver import cut_tokens, run
from tests.parsers.families.family import Family
from tests.parsers.fuzzing import fuzz
from tests.slips.slips import TOOLS, write
from tests.slips.systems import WRITERS, find_parsers, read

GLM = "<tool_call>remove<arg_key>path</arg_key><arg_value>{}</arg_value></tool_call>"
QWEN = (
    "<tool_call>\n<function=remove>\n<parameter=path>\n{}\n</parameter>\n</function>\n</tool_call>"
)
DSML = (
    '<｜DSML｜tool_calls>\n<｜DSML｜invoke name="remove">\n'
    '<｜DSML｜parameter name="path" string="true">{}</｜DSML｜parameter>\n'
    "</｜DSML｜invoke>\n</｜DSML｜tool_calls>"
)
GEMMA = '<|tool_call>call:remove{{path:<|"|>{}<|"|>}}<tool_call|>'
SEED = "<seed:tool_call>\n<function=remove>\n<parameter=path>{}</parameter>\n</function>\n"
MINIMAX = (
    '<minimax:tool_call>\n<invoke name="remove">\n<parameter name="path">{}</parameter>\n</invoke>'
)
SWALLOWED = [
    ("seed_oss", SEED, "a\n</function>\n</seed:tool_call>\n<seed:tool_call>\n<function=search>"),
    ("glm45", GLM, "a</tool_call><tool_call>search<arg_key>query</arg_key><arg_value>b"),
    ("glm45", GLM, "a<arg_key>path</arg_key><arg_value>b"),
    ("glm45", GLM, "<arg_value>a"),
    ("glm45", GLM.partition("</tool")[0], "a</tool_call>"),
    ("qwen3_coder", QWEN, "a\n<<function=search>\n<parameter=limit>\n5"),
]
MENTIONED = [
    ("glm45", GLM, "a</tool_call>"),
    ("qwen3_coder", QWEN, "a\n/parameter>"),
    ("qwen3_coder", QWEN, "<parameters>true</parameters>"),
    ("deepseek_v4", DSML, "a</｜DSML｜parameter"),
    ("olmo3", "<function_calls>\nremove(path='{}')\n</function_calls>", "a) search(q=b"),
    ("minimax_m2", MINIMAX, '"'),
    ("minimax_m2", MINIMAX, '"a'),
    ("seed_oss", SEED, "write </function> and <function=search> there"),
    ("glm45", GLM, "write <tool_call>x</tool_call> there"),
    ("glm45", GLM, "the tag <arg_key> and its end </arg_key>"),
    ("glm45", GLM, "before </tool_call><tool_call>search</tool_call> after"),
    ("glm45", GLM, "<tool_call>"),
    ("qwen3_coder", QWEN, "x <parameter=path> y"),
    ("qwen3_coder", QWEN, ">=3.0"),
    ("deepseek_v4", DSML, "a <｜DSML｜invoke> tag"),
    ("gemma4", GEMMA, "it ends with } and <tool_call|>, begins with <|tool_call>"),
]


def parse(name: str, output: str, size: int) -> list[Event]:
    return driver.read(name, output, size, tools=TOOLS)


def sent(events: list[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, ToolCallArguments))


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize(("name", "frame", "value"), SWALLOWED)
def test_the_call_stays_open(name: str, frame: str, value: str, size: int) -> None:
    events = parse(name, frame.format(value), size)
    assert ToolCallMalformed(0, "swallowed_markup") in events
    with pytest.raises(ValueError, match=r"delimiter|Extra"):
        json.loads(sent(events))


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize(("name", "frame", "value"), MENTIONED)
def test_a_marker_may_be_mentioned(name: str, frame: str, value: str, size: int) -> None:
    events = parse(name, frame.format(value), size)
    assert [event for event in events if isinstance(event, ToolCallMalformed)] == []
    assert json.loads(sent(events)) == {"path": value}


GLM_TAGS = [f"<{end}{tag}>" for tag in ("tool_call", "arg_key", "arg_value") for end in ("", "/")]
GLM_IDS = {tag: number for number, tag in enumerate(GLM_TAGS, 1)}
GLM_VALUES = [value for name, _, value in SWALLOWED if name == "glm45"]


def read_tokens(value: str, *, is_spelled: bool) -> list[Event]:
    """Return the events of a call whose markers are tokens, but for those spelled in `value`."""
    before, after = (cut_tokens(text, GLM_IDS) for text in GLM.split("{}"))
    pieces = [(value, 0)] if is_spelled else cut_tokens(value, GLM_IDS)
    request = ParserRequest(tools=TOOLS, tool_choice="auto")
    parser = linear_parsers(ParserNames("glm45"), Vocabulary(GLM_IDS))(request, [])
    return run(parser, [*before, *pieces, *after])


@pytest.mark.parametrize("value", GLM_VALUES)
def test_a_marker_that_is_spelled_where_it_would_be_a_token_is_no_markup(value: str) -> None:
    events = read_tokens(value, is_spelled=True)
    assert [event for event in events if isinstance(event, ToolCallMalformed)] == []
    assert json.loads(sent(events)) == {"path": value}


@pytest.mark.parametrize("value", GLM_VALUES)
def test_a_marker_that_is_a_token_in_a_value_is_markup(value: str) -> None:
    events = read_tokens(value, is_spelled=False)
    assert any(isinstance(event, ToolCallMalformed | ToolCallCut) for event in events)


@pytest.mark.parametrize("family", WRITERS, ids=[family.name for family in WRITERS])
@fuzz(100)
@given(value=st.text("ab <>/=\"'{}[](),:;.|_\\\n1", min_size=1, max_size=12).map(str.strip))
def test_marks_in_a_value_are_no_markup(family: Family, value: str) -> None:
    parsers = find_parsers("ours", family)
    assert parsers is not None
    value = f"a{value}b"
    format_ = tool_format(family.tool_parser or "")
    assume(format_ is None or not any(mark in value for mark in format_.quotes))
    events = read(parsers, family, write(family, (("remove", {"path": value}),)))
    assert [event.name for event in events if isinstance(event, ToolCallStarted)] == ["remove"]
    assert json.loads(sent(events)) == {"path": value}
