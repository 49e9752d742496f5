"""Checks a worker's command line against its model before you pay for a GPU."""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from ...base import server_names
from ...base.engines import load_engine_module, load_native_parsers
from ...base.errors import (
    REASONING_FLAG,
    TOOL_CALL_FLAG,
    BackedgeError,
    SetupError,
    UnknownParserError,
    shorten,
)
from ...base.flags import FlagParser, check_misspelt, run_parser
from ...frontend.handover import PROCESSING
from ...offline.contracts import suggest
from ...parsers.api import Engine, native_parsers
from ...parsers.base import ParserNames, ParserRequest
from ...parsers.detection import PROBE_NAME, PROBE_TOOL, Detection, probe_table, reads_probe
from ...parsers.events import Content
from ...parsers.format import Format
from ...parsers.linear_parsers import LinearParsers, Vocabulary
from ...parsers.parser_lookup import known_formats, reasoning_format, tool_format
from ...parsers.response_template import DESCRIBED, describes, find_table
from ...templates.auto_parsers import AUTO
from ...testing.transcripts import EXAMPLES
from ...worker.flags import (
    add_flags,
    enabling_flags,
    list_flags,
    list_names,
    read_parser_names,
    read_settings,
)
from ...worker.stock_frontends import complete_names, known_in_rust, name_in_rust
from .findings import Finding
from .model import ModelFacts

# The module after `python -m` determines the worker's engine.
REPLAY, SIDECAR = "backedge.worker.demo", "backedge.worker.sidecar"
TRANSFORMERS = "backedge.worker.transformers"
# They post-process without a flag for it.
ALWAYS_ON = (REPLAY, TRANSFORMERS)
FRONTENDS = ("backedge.frontend", "dynamo.frontend")
MODULES: dict[str, Engine] = {
    "dynamo.vllm": "vllm",
    "dynamo.sglang": "sglang",
    "dynamo.trtllm": "trtllm",
    "backedge.worker.sglang": "sglang",
    "backedge.worker.trtllm": "trtllm",
    REPLAY: "vllm",
    SIDECAR: "vllm",  # unless its flag says SGLang
    TRANSFORMERS: "vllm",
}
# The flags of Dynamo and the engines that are checked.
ENGINE_FLAGS = tuple(
    "--tokenizer --tokenizer-path --chat-template --custom-jinja-template --revision "
    "--tool-call-parser --reasoning-parser --dyn-tool-call-parser --dyn-reasoning-parser".split()
)
# Limit for a client's text in an error.
SHOWN = 160


class Kind(NamedTuple):
    """Tool calls or reasoning.

    unread: the effect of having no parser for it. prefix: of our names, in an engine's own server.
    process: the process with these parsers.
    """

    topic: str
    flag: str
    find: Callable[[str], Format | None]
    unread: str
    prefix: str = ""
    process: str = "the worker"

    def spell(self, name: str) -> str:
        """Return the flag with our parser of this name."""
        if self.prefix and name == AUTO:
            return f"{self.flag} {server_names.AUTO}"
        return f"{self.flag} {self.prefix}{name}"


TOOLS = Kind(
    "tool calls",
    TOOL_CALL_FLAG,
    tool_format,
    "the model writes calls, but no parser reads them: clients get them as text",
)
REASONING = Kind(
    "reasoning",
    REASONING_FLAG,
    reasoning_format,
    "the model reasons, but no parser reads it: clients get its thoughts in the answer",
)


class WorkerCommand(NamedTuple):
    """A worker's command line. model: a folder or a name. context_length: None for the model's."""

    module: str
    engine: Engine
    flags: argparse.Namespace
    model: str
    chat_template: str | None
    revision: str | None
    context_length: int | None
    is_on: bool
    arguments: Sequence[str]


def parse_worker_command(words: Sequence[str]) -> WorkerCommand:
    """Parse a worker's command line; other flags of the engine are ignored.

    Raises `SetupError` for a command that does not start a worker, and for invalid values.
    """
    module, engine = _find_module(words)
    parser = FlagParser(add_help=False)
    parser.add_argument("--model", "--model-path")
    for flag in ENGINE_FLAGS:
        parser.add_argument(flag)
    parser.add_argument("--max-model-len", "--context-length", "--max-seq-len", dest="length")
    parser.set_defaults(tool_parser_plugin=None)
    run_parser(functools.partial(add_flags, parser), engine)
    arguments = list(words[words.index(module) + 1 :])
    flags, others = run_parser(parser.parse_known_args, arguments)
    check_misspelt(others, {*list_names(), *PROCESSING[0]})
    model = flags.tokenizer or flags.tokenizer_path or flags.model
    if not model and module != REPLAY:
        raise SetupError("the worker's command line has no model; add --model.")
    is_on = module in ALWAYS_ON or getattr(flags, f"{engine}_processing")
    return WorkerCommand(
        module,
        engine,
        flags,
        model or str(EXAMPLES / "tiny_model"),
        flags.custom_jinja_template or flags.chat_template,
        flags.revision,
        # vLLM also accepts "32k" and "auto"; it checks them itself.
        int(flags.length) if (flags.length or "").isdecimal() else None,
        is_on,
        arguments,
    )


def _find_module(words: Sequence[str]) -> tuple[str, Engine]:
    for word in words:
        if word == SIDECAR and "--sglang-processing" in words:
            return word, "sglang"
        if word in MODULES:
            return word, MODULES[word]
    raise SetupError(
        f"{' '.join(words)!r} does not start a worker or a frontend, nor an engine's server; "
        f"after -- give a command with -m and one of {', '.join((*MODULES, *FRONTENDS))}, or "
        "`vllm serve` or sglang.launch_server."
    )


def read_names(command: WorkerCommand) -> ParserNames:
    """Return the parsers of the worker, by the rule of the workers themselves."""
    flags = command.flags
    in_rust = ParserNames(flags.dyn_tool_call_parser, flags.dyn_reasoning_parser)
    return complete_names(read_parser_names(flags), in_rust, flags.postprocess_parsers)


def check_command(command: WorkerCommand, facts: ModelFacts) -> Iterator[Finding]:
    """Report the effect of these flags with this model."""
    yield from _check_switch(command)
    names = read_names(command)
    is_native = command.flags.postprocess_parsers == "native"
    if command.module != REPLAY:
        plugin = command.flags.tool_parser_plugin
        yield from check_engine_names(command.engine, names, plugin)
    for kind, name, detection in (
        (TOOLS, names.tool_call, facts.tools),
        (REASONING, names.reasoning, facts.reasoning),
    ):
        if name == DESCRIBED:
            yield _check_described(kind, facts, is_native=is_native)
        else:
            yield from check_parser(kind, name, detection, facts, is_on=command.is_on)
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


def _check_described(kind: Kind, facts: ModelFacts, *, is_native: bool) -> Finding:
    """Check whether the model's own description has a parser."""
    flag, own = f"{kind.flag} {DESCRIBED}", facts.description
    text, fix = "the model has no `response_template` that describes it", f"leave {kind.flag} out"
    try:
        table = None if own is None else find_table(own)
    except SetupError as error:
        own, table, text = None, None, str(error)
    if own is None or not describes(own, kind.flag):
        return Finding("error", kind.topic, f"{flag}: {text}", f"name a parser, or {fix}")
    if not is_native and not isinstance(table, SetupError):
        return Finding("ok", kind.topic, f"{flag}: the table can be made")
    why = "--postprocess-parsers native asks for its values" if is_native else str(table)
    text = f"{flag}: transformers' own parser in the pool, because {why}"
    return Finding("ok", kind.topic, text)


def check_parser(
    kind: Kind,
    name: str | None,
    detection: Detection,
    facts: ModelFacts,
    *,
    is_on: bool,
) -> Iterator[Finding]:
    """Check a parser's name for the model."""
    yield from _check_name(kind, name, detection)
    if not name and detection.format is not None:
        where = "" if is_on else " on the frontend, which post-processes for plain workers"
        fix = f"{kind.spell(detection.format.name)}{where}"
        yield Finding("warning", kind.topic, kind.unread, fix)
    format_ = kind.find(name) if name and name != AUTO else None
    if format_ is None or name is None:
        return
    if format_ is detection.format:
        yield Finding("ok", kind.topic, f"{kind.spell(name)} fits")
    elif kind.flag == REASONING_FLAG:
        yield _find_reasoning_misfit(kind, name, format_, detection)
    elif detection.format is not None:
        yield _find_tool_misfit(kind, name, format_, detection.format, facts)


def _find_tool_misfit(
    kind: Kind, name: str, format_: Format, better: Format, facts: ModelFacts
) -> Finding:
    topic, fix = kind.topic, kind.spell(better.name)
    if any(reads_probe(probe_table(format_), turn) for turn in facts.evidence.turns):
        text = f"{kind.spell(name)} can read the template's calls, but {better.name} fits better"
        return Finding("note", topic, text, fix)
    misread = _misread(format_, facts)
    text = f"{kind.spell(name)} does not fit the chat template: {misread}"
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


def _check_name(kind: Kind, name: str | None, detection: Detection) -> Iterator[Finding]:
    topic, flag = kind.topic, kind.flag
    if name == AUTO and detection.format is None:
        yield Finding(
            "error",
            topic,
            f"{kind.spell(AUTO)} finds no parser, so {kind.process} will not start: "
            f"{detection.reason}",
            f"name a parser, or leave {flag} out",
        )
    elif name == AUTO and detection.format is not None:
        yield Finding("ok", topic, f"{kind.spell(AUTO)} is {detection.format.name}")


def check_engine_names(
    engine: Engine, names: ParserNames, plugin: str | None = None
) -> Iterator[Finding]:
    """Check the names that no linear parser has with the engine, whose import takes seconds.

    plugin: a file of vLLM's that may register any name.
    """
    given = ((TOOLS, names.tool_call), (REASONING, names.reasoning))
    unknown = [
        name if name and name not in (AUTO, DESCRIBED) and not kind.find(name) else None
        for kind, name in given
    ]
    if not any(unknown):
        return
    listed = " and ".join(filter(None, unknown))
    try:
        if plugin is None:
            check_names = load_native_parsers(engine).check_names
            check_names(ParserNames(*unknown), known_formats())
    except UnknownParserError as error:
        yield Finding("error", "parsers", str(error))
    except (ImportError, SetupError):
        yield Finding(
            "warning",
            "parsers",
            f"{listed}: no linear parser, and {engine} is not installed here, which may have it",
            f"{suggest(listed, known_formats())} `backedge parsers` lists the linear ones",
        )
    else:
        owner = "a plugin" if plugin else engine
        yield Finding("ok", "parsers", f"{listed}: a parser of {owner}")


def _find_reasoning_misfit(kind: Kind, name: str, format_: Format, detection: Detection) -> Finding:
    topic = kind.topic
    if name in {candidate.name for candidate in detection.candidates}:
        return Finding("note", topic, f"{kind.spell(name)} is one of the candidates")
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
        f"{kind.spell(format_.name)}: {effect}",
        kind.spell(better.name) if better is not None else f"leave {kind.flag} out",
    )


def _check_stock_names(command: WorkerCommand, facts: ModelFacts) -> Iterator[Finding]:
    """Check the parsers that Dynamo's own frontend would use."""
    topic, flags = "stock frontends", command.flags
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
