"""Checks a worker's command line against its model before you pay for a GPU."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple, NoReturn

from typing_extensions import override

from ...base.engines import load_engine_module, load_native_parsers
from ...base.errors import REASONING_FLAG, TOOL_CALL_FLAG, BackedgeError, SetupError, shorten
from ...parsers.api import native_parsers
from ...parsers.base import ParserNames, ParserRequest
from ...parsers.detection import PROBE_NAME, PROBE_TOOL, Detection, probe_table, reads_probe
from ...parsers.events import Content
from ...parsers.format import Format
from ...parsers.linear_parsers import LinearParsers, Vocabulary
from ...parsers.parser_lookup import reasoning_format, tool_format
from ...templates.auto_parsers import AUTO
from ...testing.transcripts import EXAMPLES
from ...worker.flags import (
    EngineName,
    add_flags,
    enabling_flags,
    list_flags,
    read_parser_names,
    read_settings,
)
from ...worker.stock_frontends.rust_names import known_in_rust, name_in_rust
from .findings import Finding
from .model import ModelFacts

# The module after `python -m` determines the worker's engine.
MODULES: dict[str, EngineName] = {
    "dynamo.vllm": "vllm",
    "dynamo.sglang": "sglang",
    "dynamo.trtllm": "trtllm",
    "backedge.worker.sglang": "sglang",
    "backedge.worker.trtllm": "trtllm",
    "backedge.worker.replay": "vllm",
}
REPLAY = "backedge.worker.replay"
# The flags of Dynamo and the engines that are checked.
ENGINE_FLAGS = tuple(
    "--tokenizer --tokenizer-path --chat-template --custom-jinja-template --revision "
    "--tool-call-parser --reasoning-parser --dyn-tool-call-parser --dyn-reasoning-parser".split()
)
# Limit for a client's text in an error.
SHOWN = 160


class _Kind(NamedTuple):
    """Tool calls or reasoning. unread: the effect of having no parser for it."""

    topic: str
    flag: str
    find: Callable[[str], Format | None]
    unread: str


TOOLS = _Kind(
    "tool calls",
    TOOL_CALL_FLAG,
    tool_format,
    "the model writes calls, but no parser reads them: clients get them as text",
)
REASONING = _Kind(
    "reasoning",
    REASONING_FLAG,
    reasoning_format,
    "the model reasons, but no parser reads it: clients get its thoughts in the answer",
)


class WorkerCommand(NamedTuple):
    """A worker's command line. model: a folder or a name. context_length: None for the model's."""

    engine: EngineName
    flags: argparse.Namespace
    model: str
    chat_template: str | None
    revision: str | None
    context_length: int | None
    is_on: bool
    is_replay: bool


class _Parser(argparse.ArgumentParser):
    """Raises an error instead of ending the process."""

    @override
    def error(self, message: str) -> NoReturn:
        raise SetupError(f"the worker's command line: {message}.")


def parse_worker_command(words: Sequence[str]) -> WorkerCommand:
    """Parse a worker's command line; other flags of the engine are ignored.

    Raises `SetupError` for a command that does not start a worker, and for invalid values.
    """
    module = _find_module(words)
    engine = MODULES[module]
    parser = _Parser(allow_abbrev=False, add_help=False)
    parser.add_argument("--model", "--model-path")
    for flag in ENGINE_FLAGS:
        parser.add_argument(flag)
    parser.add_argument("--max-model-len", "--context-length", "--max-seq-len", dest="length")
    add_flags(parser, engine)
    flags, _ = parser.parse_known_args(list(words[words.index(module) + 1 :]))
    model = flags.tokenizer or flags.tokenizer_path or flags.model
    if not model and module != REPLAY:
        raise SetupError("the worker's command line has no model; add --model.")
    is_on = module == REPLAY or getattr(flags, f"{engine}_processing")
    return WorkerCommand(
        engine,
        flags,
        model or str(EXAMPLES / "tiny_model"),
        flags.custom_jinja_template or flags.chat_template,
        flags.revision,
        # vLLM also accepts "32k" and "auto"; it checks them itself.
        int(flags.length) if (flags.length or "").isdecimal() else None,
        is_on,
        module == REPLAY,
    )


def _find_module(words: Sequence[str]) -> str:
    for word in words:
        if word in MODULES:
            return word
    raise SetupError(
        f"{' '.join(words)!r} does not start a worker; after -- give a command with "
        f"-m and one of {', '.join(MODULES)}."
    )


def check_command(command: WorkerCommand, facts: ModelFacts) -> Iterator[Finding]:
    """Report the effect of these flags with this model."""
    yield from _check_switch(command)
    names = read_parser_names(command.flags)
    for kind, name, detection, find_misfit in (
        (TOOLS, names.tool_call, facts.tools, partial(_find_tool_misfit, facts=facts)),
        (
            REASONING,
            names.reasoning,
            facts.reasoning,
            partial(_find_reasoning_misfit, detection=facts.reasoning),
        ),
    ):
        yield from _check_parser(kind, name, detection, find_misfit, is_on=command.is_on)
    yield from _check_stock_names(command, facts)
    own, asked = facts.files.context_length, command.context_length
    if own and asked and asked > own:
        yield Finding(
            "warning",
            "context",
            f"the worker is asked for {asked:,} tokens, but config.json has {own:,}",
            f"ask for {own:,} or fewer, unless the model supports more",
        )


def _check_switch(command: WorkerCommand) -> Iterator[Finding]:
    switch = enabling_flags(command.engine)[0]
    if not command.is_on:
        given = [
            names[0]
            for names, options in list_flags(command.engine)[1:]
            if (dest := names[0].removeprefix("--").replace("-", "_")) in vars(command.flags)
            and getattr(command.flags, dest) not in (None, options.get("default"))
        ]
        yield Finding(
            "warning" if given else "note",
            "post-processing",
            "the worker does not post-process: a Backedge frontend does it for each stream"
            + (f", and {', '.join(given)} has no effect" if given else ""),
            f"add {switch}",
        )
        return
    try:
        read_settings(command.flags, command.engine)
    except BackedgeError as error:
        yield Finding("error", "flags", str(error))
    else:
        yield Finding("ok", "post-processing", "in the worker")


def _check_parser(
    kind: _Kind,
    name: str | None,
    detection: Detection,
    find_misfit: Callable[[str, Format], Finding | None],
    *,
    is_on: bool,
) -> Iterator[Finding]:
    """Check a parser's name for the model. find_misfit: called if another one fits."""
    yield from _check_name(kind, name, detection)
    if not name and is_on and detection.format is not None:
        yield Finding("warning", kind.topic, kind.unread, f"{kind.flag} {detection.format.name}")
    format_ = kind.find(name) if name and name != AUTO else None
    if format_ is None or name is None:
        return
    if format_ is detection.format:
        yield Finding("ok", kind.topic, f"{kind.flag} {name} fits")
    elif (misfit := find_misfit(name, format_)) is not None:
        yield misfit


def _find_tool_misfit(name: str, format_: Format, facts: ModelFacts) -> Finding | None:
    better = facts.tools.format
    if better is None:
        return None
    topic, flag, _, _ = TOOLS
    fix = f"{flag} {better.name}"
    if any(reads_probe(probe_table(format_), turn) for turn in facts.evidence.turns):
        text = f"{flag} {name} can read the template's calls, but {better.name} fits better"
        return Finding("note", topic, text, fix)
    misread = _misread(format_, facts)
    text = f"{flag} {name} does not fit the chat template: {misread}"
    return Finding("error", topic, text, fix)


def _misread(format_: Format, facts: ModelFacts) -> str:
    """Describe what a client would get of the probe's call."""
    if not facts.evidence.turns:
        return "the template does not have its markers"
    parsers = LinearParsers(format_, None, Vocabulary())
    parser = parsers(ParserRequest(tools=[PROBE_TOOL], tool_choice="auto"), ())
    turn = facts.evidence.turns[0]
    events = [*parser.feed(turn), *parser.finish()]
    text = "".join(event.text for event in events if isinstance(event, Content)).strip()
    if PROBE_NAME in text:
        return f"clients get calls as text, {shorten(text, SHOWN)!r}"
    return f"clients get no call for {shorten(turn.strip(), SHOWN)!r}"


def _check_name(kind: _Kind, name: str | None, detection: Detection) -> Iterator[Finding]:
    topic, flag = kind.topic, kind.flag
    if name == AUTO and detection.format is None:
        yield Finding(
            "error",
            topic,
            f"{flag} auto finds no parser, so the worker will not start: {detection.reason}",
            f"name a parser, or leave {flag} out",
        )
    elif name == AUTO and detection.format is not None:
        yield Finding("ok", topic, f"{flag} auto is {detection.format.name}")
    elif name and kind.find(name) is None:
        yield Finding(
            "note",
            topic,
            f"{flag} {name} is not a linear parser; whether the engine or a plugin "
            "has it shows when the worker starts",
            "`backedge parsers` lists the linear ones",
        )


def _find_reasoning_misfit(name: str, format_: Format, detection: Detection) -> Finding:
    topic, flag, _, _ = REASONING
    if name in {candidate.name for candidate in detection.candidates}:
        return Finding("note", topic, f"{flag} {name} is one of the candidates")
    better = detection.format
    if format_.thinks_by_default and better is None:
        effect = (
            "it treats answers as reasoning up to a marker that the model never writes, so clients "
            "get no content"
        )
    else:
        effect = "the chat template does not have its markers"
    return Finding(
        "error",
        topic,
        f"{flag} {format_.name}: {effect}",
        f"{flag} {better.name}" if better is not None else f"leave {flag} out",
    )


def _check_stock_names(command: WorkerCommand, facts: ModelFacts) -> Iterator[Finding]:
    """Check the parsers that Dynamo's own frontend would use."""
    topic, flags = "stock frontends", command.flags
    if command.engine == "sglang" and flags.tool_call_parser and flags.dyn_tool_call_parser:
        yield Finding(
            "error",
            topic,
            "Dynamo's SGLang worker rejects --tool-call-parser with --dyn-tool-call-parser",
            "leave --dyn-tool-call-parser out: Backedge's frontends do not need it",
        )
    for flag, name, find, detection in (
        (TOOL_CALL_FLAG, flags.dyn_tool_call_parser, tool_format, facts.tools),
        (REASONING_FLAG, flags.dyn_reasoning_parser, reasoning_format, facts.reasoning),
    ):
        own = detection.format
        if not name or own is None or not known_in_rust(flag):
            continue
        right, stock_flag = name_in_rust(flag, own), flag.replace("--", "--dyn-")
        if name != right and find(name) is not own:
            yield Finding(
                "warning",
                topic,
                f"{stock_flag} {name} is not this model's parser in Dynamo's Rust frontend",
                f"{stock_flag} {right}" if right else f"leave {stock_flag} out: there is no parser",
            )


def check_vllm_parsers(facts: ModelFacts, names: ParserNames) -> Iterator[Finding]:
    """Check that vLLM's own parsers work with the model's tokenizer.

    A frontend with vLLM's renderer builds them for each request with tools, whatever parsers the
    worker has; if the tokenizer lacks their marker, each such request gets HTTP 500.
    Imports vLLM, which takes seconds.
    """
    try:
        known_names = load_native_parsers("vllm").known_names
        read_tokenizer = load_engine_module("vllm", "worker").read_tokenizer
    except (ImportError, SetupError):
        return
    if not names.tool_call or names.tool_call not in known_names(TOOL_CALL_FLAG):
        return
    try:
        tokenizer = read_tokenizer(str(facts.files.folder), trust_remote_code=False)
        native_parsers("vllm", tokenizer, ParserNames(names.tool_call))
    except BackedgeError as error:
        yield Finding(
            "warning",
            "vLLM's parser",
            f"{error} With a frontend that uses vLLM's renderer, each request with tools gets "
            "HTTP 500",
            "start the frontend with --tokenizer-backend huggingface, which needs no such parser",
        )
    except Exception as error:  # noqa: BLE001 - loading a model's tokenizer may raise anything
        yield Finding("note", "vLLM's parser", f"the tokenizer cannot be loaded here: {error}")
    else:
        yield Finding("ok", "vLLM's parser", f"{names.tool_call} works with the tokenizer")
