"""`backedge parse`: the events that a parser gives for a text; `backedge parsers`: the names."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

import click
import msgspec

from ..base.errors import REASONING_FLAG, TOOL_CALL_FLAG, SetupError
from ..base.json_types import JsonObject, check_nesting
from ..base.terminal import format_json, format_table, print_json, print_text
from ..parsers import events as kinds
from ..parsers.api import stream_parser
from ..parsers.events import Event, join
from ..parsers.format import target_state
from ..parsers.parser_lookup import known_formats
from ..parsers.response_template import describes, find_table
from ..parsers.structural_tag import build_tag
from ..templates.auto_parsers import read_description

# Texts that may name a function, also within a longer word such as "functions.find:0".
NAMES = re.compile(r"(?=\b([\w-]+(?:\.[\w-]+)*))")
WORDS: dict[type[Event], str] = {
    kinds.Content: "content",
    kinds.Reasoning: "reasoning",
    kinds.ToolCallStarted: "call",
    kinds.ToolCallArguments: "arguments",
    kinds.ToolCallMalformed: "malformed",
    kinds.ToolCallCut: "cut",
}


class Shown(msgspec.Struct, omit_defaults=True):
    """An event. index: of its call. text: of a call, its name; of a malformed one, the kind."""

    kind: str
    text: str
    index: int | None = None


@click.command(
    "parse",
    epilog="""\b
echo '<tool_call>{"name": "f", "arguments": {}}</tool_call>' | backedge parse --format hermes""",
)
@click.option(
    "--format",
    "tool_call_parser",
    metavar="NAME",
    help="Tool call parser.",
)
@click.option(
    "--reasoning",
    "reasoning_parser",
    metavar="NAME",
    help="Parser of reasoning.",
)
@click.option(
    "--tools",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="JSON list of OpenAI tools, whose schemas give types to the arguments. Without it, "
    "calls of any function are parsed.",
)
@click.option("--pieces", metavar="N", type=click.IntRange(1), help="Feed N characters at a time.")
@click.option("--length", "is_cut", is_flag=True, help="Treat the text as cut by a limit.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.argument("file", type=click.File("rb"), default="-")
def command(**flags: Any) -> None:
    """Parse a text that a model may have written.

    Reads FILE or the standard input. Prints the events of the linear parsers, one per line:
    content, reasoning, calls, their arguments. `backedge parsers` lists the names.
    """
    events = parse(**{name: flags[name] for name in flags if name != "as_json"})
    shown = [show(event) for event in events]
    if flags["as_json"]:
        print_json(shown)
        return
    for each in shown:
        name = each.kind if each.index is None else f"{each.kind} {each.index}"
        print_text(f"{name:12} {json.dumps(each.text)}")


def parse(
    *,
    file: BinaryIO,
    tool_call_parser: str | None,
    reasoning_parser: str | None,
    tools: Path | None,
    pieces: int | None,
    is_cut: bool,
) -> list[Event]:
    """Return the events of a text, joining consecutive ones of one kind.

    Raises `SetupError` without any parser, for invalid tools, and for a text that is not UTF-8.
    """
    if not (tool_call_parser or reasoning_parser):
        raise SetupError(
            "name a parser with --format or --reasoning; `backedge parsers` lists them."
        )
    try:
        text = file.read().decode()
    except UnicodeDecodeError as error:
        raise SetupError(f"the text is not UTF-8: {error}") from error
    parser = stream_parser(
        tool_call_parser=tool_call_parser or None,
        reasoning_parser=reasoning_parser or None,
        tools=declare_words(text) if tools is None else read_tools(tools),
        kind="linear",
    )
    size = pieces or max(1, len(text))
    events = [
        event
        for start in range(0, len(text), size)
        for event in parser.feed(text[start : start + size])
    ]
    return join(events + parser.finish(cut=is_cut))


def declare_words(text: str) -> Sequence[JsonObject]:
    """Return a tool for each word of `text`: most formats read only calls of declared functions."""
    words = dict.fromkeys(part for name in NAMES.findall(text) for part in (name, *name.split(".")))
    return [{"type": "function", "function": {"name": word}} for word in words or ("any",)]


def read_tools(path: Path) -> Sequence[JsonObject]:
    """Read the tools in a file. Raises `SetupError`."""
    try:
        tools = msgspec.json.decode(check_nesting(path.read_bytes()), type=list[JsonObject])
    except OSError as error:
        raise SetupError(
            f"--tools {path} cannot be read ({error.strerror}); name a JSON file."
        ) from error
    except msgspec.DecodeError as error:
        raise SetupError(f"--tools {path}: not a JSON list of tools ({error}).") from error
    for position, tool in enumerate(tools):
        function = tool.get("function")
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            raise SetupError(
                f"--tools {path}: entry {position} has no function with a name; write it as "
                '{"type": "function", "function": {"name": ..., "parameters": {...}}}.'
            )
    return tools


def show(event: Event) -> Shown:
    """Convert an event for output."""
    index = getattr(event, "index", None)
    match event:
        case kinds.ToolCallStarted():
            text = event.name
        case kinds.ToolCallMalformed():
            text = event.kind
        case _:
            text = event.text
    return Shown(WORDS[type(event)], text, index)


class ParserRow(msgspec.Struct, frozen=True):
    """One name. tool_calls, reasoning: what its format covers. source: who defined the format."""

    name: str
    tool_calls: bool
    reasoning: bool
    source: str


def list_parsers() -> list[ParserRow]:
    """Return all names of linear parsers, in alphabetical order."""
    rows = []
    for name, entry in sorted(known_formats().items()):
        sources = [format_.source for format_ in (entry.tools, entry.reasoning) if format_]
        tool_calls, reasoning = entry.tools is not None, entry.reasoning is not None
        rows.append(ParserRow(name, tool_calls, reasoning, sources[0]))
    return rows


class Described(msgspec.Struct, omit_defaults=True):
    """A model's own description.

    table: by state, each marker's target; None if no table holds it.
    grammar: the structural tag of a forced call of a function `NAME` with any arguments.
    reads, because: the parser that reads answers without a table, and why there is no table.
    """

    table: dict[str, dict[str, str]] | None
    grammar: JsonObject | None = None
    reads: str = ""
    because: str = ""


def describe(folder: Path) -> Described:
    """Return the table and grammar of a model's description. Raises `SetupError`."""
    name = read_description(folder)
    if name is None:
        raise SetupError(f"{folder / 'tokenizer_config.json'} has no `response_template`.")
    format_ = find_table(name)
    if isinstance(format_, SetupError):
        if not any(describes(name, flag) for flag in (TOOL_CALL_FLAG, REASONING_FLAG)):
            raise format_
        return Described(None, reads="transformers' own parser", because=str(format_))
    table = {
        state.name: {marker: target_state(target).name for marker, target in by_marker.items()}
        for state, by_marker in format_.states.items()
    }
    return Described(table, build_tag(format_, [("NAME", {"type": "object"})], forced=True))


def show_table(rows: Sequence[ParserRow]) -> list[str]:
    """Return the lines of a table."""
    cells = [
        (row.name, *("yes" if has else "-" for has in (row.tool_calls, row.reasoning)), row.source)
        for row in rows
    ]
    return format_table([("name", "tools", "reasoning", "source"), *cells])


@click.command("parsers")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option(
    "--template",
    metavar="FOLDER",
    type=click.Path(path_type=Path),
    help="Print the table and the grammar of a model's own description instead.",
)
def parsers(*, as_json: bool, template: Path | None) -> None:
    """List the linear parsers, whose cost per token is constant."""
    if template is not None:
        print_text(*format_json(describe(template), indent=2).split("\n"))
        return
    rows = list_parsers()
    if as_json:
        print_json(rows)
    else:
        print_text(*show_table(rows))
