"""`backedge parse`: text in, events out; `backedge parsers`: a line for each name."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from backedge.cli.main import main
from backedge.cli.parse import ParserRow
from backedge.parsers.parser_lookup import known_formats
from click.testing import CliRunner, Result

from tests.parsers.families import FAMILIES
from tests.parsers.families.family import SCENARIOS_BY_ID, Family

CALL = 'Hi <tool_call>{"name": "f", "arguments": {"a": "1"}}</tool_call>'
EVENTS = [
    {"kind": "content", "text": "Hi "},
    {"kind": "call", "text": "f", "index": 0},
    {"kind": "arguments", "text": '{"a": "1"}', "index": 0},
]
WRITING = [family for family in FAMILIES.values() if family.write is not None]


def run(text: str, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["parse", *arguments], input=text)


@pytest.mark.parametrize("family", WRITING, ids=[family.name for family in WRITING])
def test_without_tools_any_function_is_called(family: Family) -> None:
    """The option says so: of each family's way to write two calls, both are read."""
    calls = SCENARIOS_BY_ID["two calls"].calls
    assert family.write is not None
    text = family.write("", calls)
    result = run(text, "--format", family.tool_parser or "", "--json")
    events = json.loads(result.output)
    assert [event["text"] for event in events if event["kind"] == "call"] == ["write", "add"]
    arguments = [json.loads(event["text"]) for event in events if event["kind"] == "arguments"]
    assert [*map(sorted, arguments)] == [sorted(values) for _, values in calls]


@pytest.mark.parametrize("pieces", ["1", "3", "1000"])
def test_events(pieces: str) -> None:
    result = run(CALL, "--format", "hermes", "--json", "--pieces", pieces)
    assert json.loads(result.output) == EVENTS


def test_a_line_for_each_event() -> None:
    lines = run("<think>So.</think>" + CALL, "--format", "hermes", "--reasoning", "qwen3").output
    assert [line.split(maxsplit=1)[0] for line in lines.splitlines()] == [
        *("reasoning", "content", "call", "arguments")
    ]


def test_schemas_give_arguments_their_types(tmp_path: Path) -> None:
    function = {"name": "f", "parameters": {"properties": {"a": {"type": "integer"}}}}
    tools = tmp_path / "tools.json"
    tools.write_text(json.dumps([{"type": "function", "function": function}]))
    text = "<tool_call>\n<function=f>\n<parameter=a>\n1\n</parameter>\n</function>\n</tool_call>"
    typed = run(text, "--format", "qwen3_coder", "--tools", str(tools), "--json")
    assert json.loads(json.loads(typed.output)[-1]["text"]) == {"a": 1}


def test_a_text_that_a_limit_has_cut() -> None:
    result = run(CALL[:50], "--format", "hermes", "--length", "--json")
    assert json.loads(result.output)[-1]["kind"] == "cut"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "backedge parsers"),
        (["--format", "hermos"], "hermos"),
        (["--format", "hermes", "--tools", "none.json"], "none.json"),
        (["--format", "hermes", "none.txt"], "none.txt"),
        (["--format", "hermes", "--pieces", "0"], "0"),
    ],
)
def test_errors_are_one_line(arguments: list[str], says: str) -> None:
    result = run(CALL, *arguments)
    assert (result.exit_code, says in result.output) == (2, True)
    assert "Traceback" not in result.output


@pytest.mark.parametrize("content", ["no", "{}", "[1]", '[{"function": {"name": 5}}]'])
def test_tools_that_are_none(tmp_path: Path, content: str) -> None:
    tools = tmp_path / "tools.json"
    tools.write_text(content)
    result = run(CALL, "--format", "hermes", "--tools", str(tools))
    assert (result.exit_code, "tools.json" in result.output) == (2, True)


def test_a_text_that_is_no_text() -> None:
    result = CliRunner().invoke(main, ["parse", "--format", "hermes"], input=b"\xff")
    assert result.exit_code == 2


def test_lists_every_name() -> None:
    result = CliRunner().invoke(main, ["parsers", "--json"])
    rows = msgspec.json.decode(result.output, type=list[ParserRow])
    assert {row.name for row in rows} == set(known_formats())
    assert all(row.tool_calls or row.reasoning for row in rows)


def test_the_table_has_a_line_for_each_name() -> None:
    lines = CliRunner().invoke(main, ["parsers"]).output.splitlines()
    assert len(lines) == len(known_formats()) + 1
    assert next(line for line in lines if line.startswith("hermes ")).split()[1] == "yes"


DESCRIPTION = {"thinking": {"open": "<|muse|>", "close": "<|hush|>"}, "content": {}}


def test_the_table_of_a_description(tmp_path: Path) -> None:
    config = tmp_path / "tokenizer_config.json"
    config.write_text(json.dumps({"response_template": {"fields": DESCRIPTION}}))
    result = CliRunner().invoke(main, ["parsers", "--template", str(tmp_path)])
    assert json.loads(result.output)["table"]["REASONING"] == {"<|hush|>": "START"}
    thinking = {"open_pattern": "<(?=a)", "close": ">"}
    config.write_text(json.dumps({"response_template": {"fields": {"thinking": thinking}}}))
    result = CliRunner().invoke(main, ["parsers", "--template", str(tmp_path)])
    shown = json.loads(result.output)
    assert (shown["table"], shown["reads"]) == (None, "transformers' own parser")
    assert "'thinking'" in shown["because"]
    config.write_text(json.dumps({"response_template": {"fields": {"x": {}}}}))
    result = CliRunner().invoke(main, ["parsers", "--template", str(tmp_path)])
    assert "'x' that an answer does not have" in result.output
    config.write_text("{}")
    result = CliRunner().invoke(main, ["parsers", "--template", str(tmp_path)])
    assert "has no `response_template`" in result.output
