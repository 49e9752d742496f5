"""Formats with tags: what is well-formed passes unchanged, and slips that the output proves."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from backedge.parsers.format import VALUE_STATES, State
from backedge.parsers.parser_lookup import tool_format

from tests.parsers import driver
from tests.parsers.event_outcome import read_shown
from tests.parsers.families.family import Family, function
from tests.slips.outcome import Class, classify
from tests.slips.slips import TOOLS
from tests.slips.systems import WRITERS, find_parsers, read
from tests.slips.test_properties import read_text

Arguments = dict[str, Any]


def has_tags(family: Family) -> bool:
    """Whether the values of a family's calls stand between tags."""
    format_ = tool_format(family.tool_parser or "")
    reads = {State.ELEMENTS, *VALUE_STATES}
    return (
        format_ is not None
        and not reads.isdisjoint(format_.states)
        and format_.spelling is not None
        and bool(format_.spelling.parameters)
    )


TAGGED = [family for family in WRITERS if has_tags(family)]
every_family = pytest.mark.parametrize("family", TAGGED, ids=lambda family: family.name)
sizes = pytest.mark.parametrize("size", [1, 5, 1000])
TOOL = function("f", text="string", command="string", n="integer", body="string")


def parse(name: str, output: str, size: int = 0, ids: dict[str, int] | None = None) -> Any:
    """Return names, arguments as they were sent, and the calls left open."""
    shown = read_shown(driver.read(name, output, size, ids=ids, tools=[*TOOLS, TOOL]))
    return shown.names, shown.arguments, shown.still_open


# Well-formed calls.


@every_family
@sizes
def test_a_value_keeps_the_end_of_a_call_if_its_own_end_follows(family: Family, size: int) -> None:
    format_ = tool_format(family.tool_parser or "")
    assert format_ is not None
    assert family.write is not None
    between = format_.states.get(State.PARAMETERS, {})
    for end in (end for end, target in between.items() if target is State.TOOL_SECTION):
        if "/" not in end or "｜" in end:
            continue
        output = family.write("", [("f", {"text": f"ends {end}"})])
        names, arguments, still_open = parse(family.tool_parser or "", output, size)
        assert (names, still_open) == (["f"], set())
        assert json.loads(arguments[0]) == {"text": f"ends {end}"}


M3 = "]<]minimax[>["


def write_m3(body: str) -> str:
    """Return a call of MiniMax M3; `^` in `body` stands for the prefix of tags."""
    call = f'^<tool_call>\n^<invoke name="f">{body}^</invoke>\n^</tool_call>'
    return call.replace("^", M3)


@sizes
@pytest.mark.parametrize(
    ("body", "arguments"),
    [
        ("^<body><body>hi</body>^</body>", {"body": "<body>hi</body>"}),
        ("^<body>a</body> b</body>\n^</body>", {"body": "a</body> b</body>\n"}),
        ("^<body>hi</body>", {"body": "hi"}),
        ("^<body>hi</body>\n^<n>5^</n>", {"body": "hi", "n": 5}),
        (f"^<{'k' * 512}>v^</{'k' * 512}>", {"k" * 512: "v"}),
    ],
)
def test_an_end_tag_without_its_prefix_ends_an_element_only_before_a_tag(
    body: str, arguments: Arguments, size: int
) -> None:
    names, sent, still_open = parse("minimax_m3", write_m3(body), size)
    assert (names, still_open) == (["f"], set())
    assert json.loads(sent[0]) == arguments


QUOTED = {
    "minimax_m2": '<minimax:tool_call>\n<invoke name="f">\n<parameter name={}>v</parameter>\n'
    "</invoke>\n</minimax:tool_call>",
    "dots": '<dots_function_call>\n<invoke name="f">\n<parameter name={}>v</parameter>\n'
    "</invoke>\n</dots_function_call>",
    "minicpm5": '<function name="f"><param name={}>v</param></function>',
}


@sizes
@pytest.mark.parametrize("name", QUOTED)
@pytest.mark.parametrize(
    ("spelt", "key"),
    [
        *(('"a>b"', "a>b"), ('"a\'>b"', "a'>b"), ("'a\">b'", 'a">b'), ('"text"', "text")),
        *(('" text"', " text"), ('">"', ">"), ('"a, b"', "a, b"), ("'text'", "text")),
    ],
)
def test_the_quote_that_opens_a_key_decides_its_end(
    name: str, spelt: str, key: str, size: int
) -> None:
    _, arguments, _ = parse(name, QUOTED[name].format(spelt), size)
    assert json.loads(arguments[0].removesuffix("}") + "}") == {key: "v"}


@sizes
@pytest.mark.parametrize("value", ["v", "a > b"])
@pytest.mark.parametrize("name", ["minimax_m2", "dots"])
def test_a_key_without_its_second_quote_leaves_the_call_open(
    name: str, value: str, size: int
) -> None:
    output = QUOTED[name].format('"text').replace(">v<", f">{value}<")
    names, arguments, still_open = parse(name, output, size)
    assert (names, still_open) == (["f"], {0})
    assert f"text>{value}" in arguments[0]


# Slips that the output proves.


QWEN = "<tool_call>\n<function=f>\n<parameter=command>\n{}\n</parameter>\n</function>\n</tool_call>"
DSML_KEY = '<｜DSML｜parameter name="{}" string="true">'
DSML = (
    '<｜DSML｜function_calls>\n<｜DSML｜invoke name="f">\n'
    + DSML_KEY.format("command")
    + "{}</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>"
)


@sizes
@pytest.mark.parametrize(
    ("name", "output", "is_open"),
    [
        ("qwen3_coder", QWEN.format("<parameter=foo>"), True),
        ("qwen3_coder", QWEN.format("<parameter=text>\nb"), True),
        ("qwen3_coder", QWEN.format("a\n<parameter=foo>\nb"), True),
        ("qwen3_coder", QWEN.format("a\n<parameter=text>\nb"), False),
        ("deepseek_v32", DSML.format(DSML_KEY.format("foo")), True),
        ("deepseek_v32", DSML.format("a\n" + DSML_KEY.format("foo") + "b"), True),
        ("deepseek_v32", DSML.format("a\n" + DSML_KEY.format("text") + "b"), False),
    ],
)
def test_a_key_ends_a_value_without_its_end_if_it_is_declared(
    name: str, output: str, is_open: bool, size: int
) -> None:
    names, arguments, still_open = parse(name, output, size)
    assert names == ["f"]
    assert bool(still_open) is is_open
    if not is_open:
        assert json.loads(arguments[0]) == {"command": "a", "text": "b"}


CALL = ("search", {"query": "beta gamma", "limit": 5})
# Its values and its calls end by headers, which are read where they stand.
BY_HEADER = {"kimi_k3"}


@every_family
@pytest.mark.parametrize("keys", [("query", "limit"), ("limit", "query")])
def test_a_last_value_without_its_end_is_complete_at_the_end_of_the_output(
    family: Family, keys: tuple[str, str]
) -> None:
    call = CALL[0], {key: CALL[1][key] for key in keys}
    assert family.write is not None
    output = family.write("", [call])
    slipped = leave_out_last_end(family, output)
    if slipped is None:
        return
    parsers = find_parsers("ours", family)
    assert parsers is not None
    answers = [read(parsers, family, slipped), *(read_text(family, slipped, n) for n in (1, 6, 99))]
    wanted = Class.OPEN if family.name in BY_HEADER else Class.RIGHT
    assert [classify(events, [call]) for events in answers] == [wanted] * 4
    assert answers[1:] == [answers[1]] * 3


def leave_out_last_end(family: Family, output: str) -> str | None:
    """Return an output without the last end of a value; None if there is none."""
    format_ = tool_format(family.tool_parser or "")
    assert format_ is not None
    ends = {end for state in VALUE_STATES for end in format_.states.get(state, ())}
    closing = [re.escape(end.strip()) for end in ends if "/" in end or "close" in end]
    found = [*re.finditer("|".join(closing) or "(?!)", output)]
    return output[: found[-1].start()] + output[found[-1].end() :] if found else None


@sizes
@pytest.mark.parametrize("more", [" and go on", "\n<tool_call>", "x", "\n" * 300])
def test_the_end_of_a_call_in_a_value_is_text_if_the_output_goes_on(more: str, size: int) -> None:
    value = f"ls\n</function>\n</tool_call>{more}"
    for output in (QWEN.format(value), QWEN.partition("{}")[0] + value):
        _, arguments, still_open = parse("qwen3_coder", output, size)
        sent = json.loads(re.sub(r'"?\}?\Z', '"}', arguments[0], count=1))["command"]
        assert sent.rstrip("\n") == value.rstrip("\n")
        assert output.endswith("</tool_call>") or still_open or more == "\n" * 300


GLM_TAGS = [f"<{end}{tag}>" for tag in ("tool_call", "arg_key", "arg_value") for end in ("", "/")]
GLM_IDS = {tag: number for number, tag in enumerate(GLM_TAGS, 1)}
DSML_IDS = {"｜DSML｜": 1}
GLM = (
    "<tool_call>search\n<arg_key>query</arg_key>\n<arg_value>beta gamma</arg_value>\n"
    "<arg_key>limit</arg_key>\n<arg_value>5</arg_value>\n</tool_call>"
)


@pytest.mark.parametrize(
    "output",
    [
        GLM.replace("<arg_value>", ""),
        GLM.replace("<arg_key>", "<arg_key><arg_key>"),
    ],
)
def test_a_start_of_a_value_that_is_missing_or_of_a_key_that_is_doubled_is_no_slip(
    output: str,
) -> None:
    names, arguments, still_open = parse("glm45", output, ids=GLM_IDS)
    assert (names, still_open) == (["search"], set())
    assert json.loads(arguments[0]) == CALL[1]
    assert parse("glm45", GLM.replace("</arg_value>", "", 1), ids=GLM_IDS)[2] == {0}


@pytest.mark.parametrize(
    "doubled",
    ["<｜DSML｜function_calls>\n", '<｜DSML｜invoke name="f">\n'],
)
def test_a_start_that_is_doubled_counts_once_if_it_holds_a_token(doubled: str) -> None:
    output = DSML.format("ls").replace(doubled, doubled * 2)
    names, arguments, still_open = parse("deepseek_v32", output, ids=DSML_IDS)
    assert (names, still_open) == (["f"], set())
    assert json.loads(arguments[0]) == {"command": "ls"}


def test_a_broken_end_that_holds_a_token_is_no_text() -> None:
    output = DSML.format("ls</｜DSML｜parameter")
    assert parse("deepseek_v32", output, ids=DSML_IDS)[2] == {0}
    assert parse("deepseek_v32", output)[2] == set()
