"""Checks the command line of an engine's own server, `vllm serve` or `sglang.launch_server`."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ...base import server_names
from ...base.errors import SetupError, UnknownParserError
from ...base.flags import FlagParser, run_parser
from ...base.server_names import find_own_name, list_names
from ...parsers.api import Engine
from ...parsers.base import ParserNames
from ...parsers.detection import Detection
from ...templates.auto_parsers import AUTO
from ...worker.flags import list_flags
from .findings import Finding
from .model import ModelFacts
from .worker_command import REASONING, TOOLS, Kind, check_engine_names, check_parser

# The word that begins a server's arguments.
SERVERS: dict[str, Engine] = {
    "serve": "vllm",
    "vllm.entrypoints.openai.api_server": "vllm",
    "sglang.launch_server": "sglang",
}
BOTH = "let both flags name Backedge's, or leave one out"
# By kind: our formats' own names, which these servers know.
NAMES = {
    TOOLS.flag: server_names.TOOL_CALL_PARSERS,
    REASONING.flag: server_names.REASONING_PARSERS,
}


class ServerCommand(NamedTuple):
    """A server's command line.

    foreign: flags that only a worker of ours has. config: a file with more flags.
    """

    engine: Engine
    model: str
    chat_template: str | None
    revision: str | None
    tool_call: str | None
    reasoning: str | None
    enables_calls: bool
    foreign: list[str]
    config: str | None


def find_server(words: Sequence[str]) -> tuple[Engine, list[str]] | None:
    """Return the engine of a server's command line, and its arguments; None for other commands."""
    for position, word in enumerate(words):
        if word in SERVERS:
            return SERVERS[word], list(words[position + 1 :])
    return None


def parse_server_command(engine: Engine, arguments: Sequence[str]) -> ServerCommand:
    """Read the flags that are checked. Raises `SetupError` for one without its value."""
    if engine == "vllm":
        arguments = [with_dashes(word) for word in arguments]
    parser = FlagParser(add_help=False)
    parser.add_argument("--model", "--model-path")
    for flag in ("--tokenizer", "--tokenizer-path", "--chat-template", "--revision", "--config"):
        parser.add_argument(flag)
    for kind in (TOOLS, REASONING):
        parser.add_argument(kind.flag)
    parser.add_argument("--enable-auto-tool-choice", action="store_true")
    flags, others = run_parser(parser.parse_known_args, list(arguments))
    own = {name for names, _ in list_flags(engine) for name in names}
    return ServerCommand(
        engine,
        _find_model(flags, arguments),
        flags.chat_template,
        flags.revision,
        flags.tool_call_parser,
        flags.reasoning_parser,
        flags.enable_auto_tool_choice or engine != "vllm",
        [word for word in others if word.partition("=")[0] in own],
        flags.config,
    )


def with_dashes(word: str) -> str:
    """Return a word of a command line with the name of a flag as vLLM reads it."""
    name, equals, value = word.partition("=")
    return name.replace("_", "-") + equals + value if name.startswith("--") else word


def _find_model(flags: argparse.Namespace, arguments: Sequence[str]) -> str:
    """Return the folder or the name that has the chat template. Raises `SetupError` without one."""
    tags = [word for word in arguments[:1] if not word.startswith("-")]
    given = (flags.tokenizer, flags.tokenizer_path, flags.model, *tags)
    found = next(filter(None, given), None)
    if found is None:
        raise SetupError("the server's command line has no model.")
    return str(found)


def check_server(command: ServerCommand, facts: ModelFacts) -> Iterator[Finding]:
    """Report the effect of a server's flags with this model."""
    if command.foreign:
        yield Finding(
            "error",
            "flags",
            f"{', '.join(command.foreign)}: these flags belong to "
            f"`python -m dynamo.{command.engine}`",
            "leave them out",
        )
    if command.config:
        yield Finding("note", "flags", f"those in {command.config} are not checked")
    if command.tool_call and not command.enables_calls:
        yield Finding(
            "error",
            TOOLS.topic,
            f"vLLM ignores {TOOLS.flag} without --enable-auto-tool-choice",
            "add --enable-auto-tool-choice",
        )
    given = (
        (TOOLS, command.tool_call, facts.tools),
        (REASONING, command.reasoning, facts.reasoning),
    )
    for kind, name, detection in given:
        served = kind._replace(prefix=server_names.PREFIX, process="the server")
        yield from _check_name(served, name, detection, facts)
    yield from _check_pair(command.engine, (command.tool_call, command.reasoning))


def _check_pair(engine: Engine, names: Sequence[str | None]) -> Iterator[Finding]:
    """Check both parsers together: those of the engine, and whether one of them is Backedge's."""
    others = [None if find_own_name(name) else name for name in names]
    yield from check_engine_names(engine, ParserNames(*others))
    ours = [find_own_name(name) is not None for name in names if name]
    if engine == "vllm" and len(set(ours)) > 1:
        yield Finding(
            "error",
            "parsers",
            "one of the two parsers is Backedge's and the other vLLM's: such a server does not "
            "start",
            BOTH,
        )
    elif engine == "vllm" and ours == [False]:
        text = "beside a parser of vLLM, none of Backedge's reads the rest of an answer"
        yield Finding("note", "parsers", text, BOTH)


def _check_name(
    kind: Kind, name: str | None, detection: Detection, facts: ModelFacts
) -> Iterator[Finding]:
    """Check the parser that a server's flag names."""
    own = find_own_name(name)
    better = "" if detection.format is None else kind.spell(detection.format.name)
    if name and own is None:
        text = f"{kind.flag} {name} is not one of Backedge's parsers"
        yield Finding("note", kind.topic, text, better)
    elif own not in (None, AUTO, *NAMES[kind.flag]):
        error = UnknownParserError(kind.flag, str(name), list_names(NAMES[kind.flag]))
        yield Finding("error", kind.topic, str(error), better)
    else:
        yield from check_parser(kind, own, detection, facts, is_on=True)
