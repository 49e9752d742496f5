"""The flags that Backedge adds to a worker, and the settings made from them."""

from __future__ import annotations

import argparse
import functools
import math
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec
from typing_extensions import override

from ..base.engines import load_native_parsers
from ..base.errors import MALFORMED_FLAG, SetupError
from ..base.flags import (
    MAX_DIGITS,
    OFF,
    ON,
    Flag,
    check_variables,
    end_briefly,
    flag,
    parse_megabytes,
    read_variable,
    with_variable,
)
from ..base.limits import PROCESS_MEMORY_MB
from ..parsers.api import Engine
from ..parsers.base import ParserNames, WorkerMalformedCalls
from ..parsers.parser_lookup import Kind, known_formats, reasoning_format, tool_format
from ..parsers.response_template import DESCRIBED, describing_name
from ..postprocess.settings import (
    MERGE_DELAYS,
    STREAM_CALLS_FLAG,
    Latency,
    MergeDelays,
    OnError,
    PostprocessSettings,
    StreamCalls,
)
from ..recording import flags as record_flags
from ..recording.flags import RecordSettings
from ..templates.auto_parsers import asks_model, resolve_auto
from ..tokenization import tokenizer_selection as tokenizer_flags
from ..tokenization.tokenizer_selection import TokenizerSelection
from .pool import (
    CORES_PER_PROCESS,
    MAX_AUTO_PROCESSES,
    auto_processes,
)

MS_PER_S = 1000


def describe_latency(latency: Latency) -> str:
    """Describe a latency's merge delays for the help text."""
    delays = msgspec.structs.asdict(MERGE_DELAYS[latency]).items()
    in_ms = ", ".join(f"{kind} {delay_s * MS_PER_S:g} ms" for kind, delay_s in delays)
    return f"'{latency}' {in_ms}"


def parse_delays(text: str) -> dict[str, float]:
    """Parse KIND=MS,...; return delays in seconds by kind. Raises ArgumentTypeError."""
    delays: dict[str, float] = {}
    for part in text.split(","):
        kind, _, value = part.partition("=")
        try:
            delays[kind.strip()] = float(value) / MS_PER_S
        except ValueError:
            raise argparse.ArgumentTypeError(
                f"{part!r} is not KIND=MS with a number of milliseconds"
            ) from None
    unknown = delays.keys() - set(MergeDelays.__struct_fields__)
    if unknown:
        known = ", ".join(MergeDelays.__struct_fields__)
        raise argparse.ArgumentTypeError(
            f"there is no kind {', '.join(sorted(unknown))}; the kinds are {known}"
        )
    if not all(0 <= delay_s < math.inf for delay_s in delays.values()):
        raise argparse.ArgumentTypeError(f"{text!r}: a delay must be 0 or more")
    return delays


def parse_processes(text: str) -> int | None:
    """Parse a number of processes; None for "auto". Raises ArgumentTypeError."""
    if text == "auto":
        return None
    if not (text.isascii() and text.isdecimal()) or len(text) > MAX_DIGITS:
        raise argparse.ArgumentTypeError(f"{text!r} is neither 'auto' nor a number from 0")
    return int(text)


def parse_seconds(text: str) -> float:
    """Parse a time. Raises ArgumentTypeError unless it is finite and greater than 0."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds greater than 0")
    return value


GROUP = "Backedge: post-processing in the worker"
FOR_ANY_ENGINE = "--native-framework-processing"
# An engine that has one of these itself keeps its own.
PARSER_FLAGS: tuple[Flag, ...] = tuple(
    flag(
        name,
        default=None,
        help=f"{what} parser for the model; 'auto' derives it from the chat template.",
    )
    for name, what in (("--tool-call-parser", "Tool"), ("--reasoning-parser", "Reasoning"))
)
PLUGIN_FLAG = flag(
    "--tool-parser-plugin",
    default=None,
    help="Python file that registers a tool parser with vLLM, for --tool-call-parser.",
)
SHARED_FLAGS: tuple[Flag, ...] = (
    flag(
        "--postprocess-parsers",
        choices=get_args(Kind),
        default="auto",
        help="'linear' for Backedge's own parsers, 'native' for the engine's; 'auto' uses "
        "the linear ones if they support both names.",
    ),
    flag(
        "--postprocess-detokenizer",
        choices=("table", "native"),
        default="table",
        help="'table' for Backedge's own detokenizers, 'native' for the engine's.",
    ),
    flag(
        "--postprocess-on-error",
        choices=get_args(OnError),
        default="degrade",
        help="If a parser raises: 'degrade' sends raw text from that point, 'fail' ends the "
        "request with an error.",
    ),
    flag(
        MALFORMED_FLAG,
        choices=get_args(WorkerMalformedCalls),
        default="open",
        help="If delimiters alone cannot make the arguments of a call JSON: 'open' sends "
        "them as written, in a call that no client executes; 'repair' guesses.",
    ),
    flag(
        STREAM_CALLS_FLAG,
        choices=get_args(StreamCalls),
        help="With --postprocess-malformed-calls regenerate: 'whole' (the default there) sends a "
        "call once it is right, 'arguments' sends JSON arguments while they are written.",
    ),
    flag(
        "--postprocess-workers",
        type=parse_processes,
        default="auto",
        metavar="N|auto",
        help="Processes for native parsers, so that a slow one delays no other request; 0 "
        "runs them in the worker's event loop, where linear parsers always run. 'auto' uses "
        f"one per {CORES_PER_PROCESS} cores, at most {MAX_AUTO_PROCESSES}.",
    ),
    flag(
        "--postprocess-deadline-s",
        type=parse_seconds,
        default=2.0,
        metavar="SECONDS",
        help="How long a native parser may take for one chunk in a process of "
        "--postprocess-workers. After that the process is killed, and the request continues as "
        "--postprocess-on-error says. Default: 2.",
    ),
    flag(
        "--postprocess-memory-mb",
        type=parse_megabytes,
        default=PROCESS_MEMORY_MB,
        metavar="MIB",
        help="Memory that each process of --postprocess-workers may use in addition to "
        "what they share; a parser that needs more fails. 0 for no limit. "
        f"Default: {PROCESS_MEMORY_MB}.",
    ),
    flag(
        "--postprocess-latency",
        choices=get_args(Latency),
        default="balanced",
        help="How long deltas of a stream may wait for more of the same kind, so that fewer "
        f"chunks travel: 'lowest' never merges; {describe_latency('balanced')}; "
        f"{describe_latency('throughput')}. The first delta and the finish never wait.",
    ),
    flag(
        "--postprocess-latency-ms",
        type=parse_delays,
        default={},
        metavar="KIND=MS[,...]",
        help="Delays for single kinds, overriding those of --postprocess-latency: "
        f"{', '.join(MergeDelays.__struct_fields__)} (for example content=20,tools=500).",
    ),
    flag(
        "--postprocess-stock-frontends",
        choices=(ON, OFF),
        default=ON,
        help="Also generate text, check stop strings and merge chunks here for requests of "
        "Dynamo's own Rust frontend and of /v1/completions. The Rust frontend still parses "
        "reasoning and tool calls.",
    ),
    *record_flags.FLAGS,
    *tokenizer_flags.FLAGS,
)


class WorkerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The parsed flags of one worker, some of them the engine's own.

    post_processing: off for a worker that only names a tokenizer. workers: None for "auto".
    stock_frontends: also serve stock frontends. record: None to record nothing.
    """

    post_processing: bool = True
    names: ParserNames = ParserNames()
    tool_parser_plugin: str | None = None
    parsers: Kind = "auto"
    detokenizer: Literal["table", "native"] = "table"
    workers: int | None = None
    postprocess: PostprocessSettings = PostprocessSettings()
    stock_frontends: bool = True
    record: RecordSettings | None = None
    tokenizer: TokenizerSelection = TokenizerSelection()

    def pool_processes(self, *, is_native: bool) -> int:
        """Return how many processes to start: 0 for linear parsers, which are cheaper inline.

        Raises `SetupError` for none if the parsers run in processes of their own alone.
        """
        if not is_native:
            return 0
        needs_one = bool(describing_name(self.names))
        if self.workers is None:
            return max(auto_processes(), int(needs_one))
        if needs_one and not self.workers:
            raise SetupError(
                "transformers' parser of the model's `response_template` runs in processes of its "
                "own: leave out --postprocess-workers 0."
            )
        return self.workers


def enabling_flags(engine: Engine) -> tuple[str, str]:
    """Return the names of the flag that enables post-processing."""
    return f"--{engine}-processing", FOR_ANY_ENGINE


def list_flags(engine: Engine) -> tuple[Flag, ...]:
    """Return all flags that Backedge adds to an engine's worker."""
    switch = {
        "dest": f"{engine}_processing",
        "action": "store_true",
        "help": "Detokenize, check stop strings and parse reasoning and tool calls in this worker, "
        "for every request from a Backedge frontend.",
    }
    return (enabling_flags(engine), switch), *OWN_FLAGS[engine](), *SHARED_FLAGS


def sglang_flags() -> tuple[Flag, ...]:
    """Return the flags of SGLang that also accept the names of our formats.

    There is no plugin flag: SGLang cannot load a file that registers a parser.
    """
    return tuple(
        (
            (flag,),
            {"choices": sorted({DESCRIBED, *(name for name in known_formats() if find(name))})},
        )
        for flag, find in (
            ("--tool-call-parser", tool_format),
            ("--reasoning-parser", reasoning_format),
        )
    )


# The flags that only one engine's worker needs.
OWN_FLAGS: dict[Engine, Callable[[], tuple[Flag, ...]]] = {
    "vllm": lambda: (*PARSER_FLAGS, PLUGIN_FLAG),
    "sglang": sglang_flags,
    "trtllm": lambda: PARSER_FLAGS,
}


def list_names() -> set[str]:
    """Return the names of all flags of all engines' workers."""
    engines: tuple[Engine, ...] = get_args(Engine)
    return {name for engine in engines for names, _ in list_flags(engine) for name in names}


class _Refused(argparse.Action):
    """A flag that another command takes."""

    @override
    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,
    ) -> None:
        parser.error(f"{option_string}: {self.metavar}")


def refuse_flags(
    parser: argparse.ArgumentParser, engine: Engine, beginnings: tuple[str, ...]
) -> None:
    """Have the engine's own server refuse our flags in one sentence; its help does not have them.

    beginnings: of the names; other flags of ours may also be the engine's.
    """
    reason = f"this flag of Backedge belongs to `python -m dynamo.{engine}`."
    for names, _ in list_flags(engine):
        if own := [name for name in names if name.startswith(beginnings)]:
            parser.add_argument(
                *own, action=_Refused, nargs="?", metavar=reason, help=argparse.SUPPRESS
            )


def add_flags(parser: argparse.ArgumentParser, engine: Engine) -> None:
    """Add the flags that `parser` does not have (vLLM's frontend has its server's flags).

    All of them take their environment variables. Raises SystemExit for values that they refuse,
    and for misspelt variables.
    """
    check_variables(list_names())
    # Some engines print pages of usage before the sentence.
    setattr(parser, "error", functools.partial(end_briefly, parser))  # noqa: B010 - for mypy
    known = parser._option_string_actions  # noqa: SLF001 - argparse has no public access
    if enabling_flags(engine)[0] in known:
        return  # the plugin has added them
    group = parser.add_argument_group(GROUP)
    shared: dict[str, EngineChoices] = {}
    for names, options in list_flags(engine):
        action = next((known[name] for name in names if name in known), None)
        if action is None:
            group.add_argument(*names, **with_variable(names, options))
            continue
        if "choices" in options and action.choices:
            shared[action.dest] = share_choices(action, options["choices"])
        found = read_variable(names, {"choices": action.choices})
        action.default = found.get("default", action.default)
    parser.set_defaults(**{ENGINE_CHOICES: shared})


class EngineChoices(msgspec.Struct, frozen=True):
    """The choices of an engine's flag before ours were added."""

    default: str | None
    choices: tuple[str, ...]


# A parsed command line has under this name the `EngineChoices` of the flags that the engine and we
# share, by their destination.
ENGINE_CHOICES = "backedge_engine_choices"
FORMAT_LOOKUPS = {"tool_call_parser": tool_format, "reasoning_parser": reasoning_format}


def share_choices(action: argparse.Action, choices: Iterable[str]) -> EngineChoices:
    """Let a flag of the engine accept our `choices` as well, and return its own.

    Its default becomes None. `keep_engine_choices` later removes what the engine does not know.
    """
    own = EngineChoices(action.default, tuple(action.choices or ()))
    action.choices = list(dict.fromkeys((*own.choices, *choices)))
    action.default = None
    return own


def engine_choices(arguments: argparse.Namespace) -> dict[str, EngineChoices]:
    """Return the engine's own choices for each flag that it shares with us, by destination."""
    found: dict[str, EngineChoices] = getattr(arguments, ENGINE_CHOICES, {})
    return found


def engine_names(arguments: argparse.Namespace, flag: str) -> tuple[str, ...]:
    """Return the names that the engine itself accepts for a shared flag."""
    shared = engine_choices(arguments).get(flag.removeprefix("--").replace("-", "_"))
    return () if shared is None else shared.choices


def keep_engine_choices(arguments: argparse.Namespace) -> None:
    """Reduce `arguments` to choices that the engine knows.

    One of ours becomes the engine's name of the same format, or the engine's default.
    """
    for dest, engine in engine_choices(arguments).items():
        choice = getattr(arguments, dest)
        if choice in engine.choices:
            continue
        find = FORMAT_LOOKUPS.get(dest)
        format_ = None if find is None or choice is None else find(choice)
        names = () if format_ is None else (format_.name, *format_.aliases)
        known = (name for name in names if name in engine.choices)
        setattr(arguments, dest, next(known, engine.default))


def read_settings(arguments: argparse.Namespace, engine: Engine) -> WorkerSettings | None:
    """Return the settings; None if neither post-processing nor a tokenizer is requested.

    Raises `SetupError` for flags that contradict each other.
    """
    switch = f"{engine}_processing"
    if not hasattr(arguments, switch):
        return None
    tokenizer = tokenizer_flags.parse_tokenizer_flags(arguments)
    if not getattr(arguments, switch):
        if tokenizer.backend is None:
            return None
        return WorkerSettings(post_processing=False, tokenizer=tokenizer)
    return read_postprocessing(arguments, read_parser_names(arguments), tokenizer)


# The settings that a flag --postprocess-NAME has as they are: the worker's, and post-processing's.
PLAIN = ("parsers", "detokenizer", "workers")
PLAIN_POSTPROCESS = ("on_error", "malformed_calls", "stream_calls", "deadline_s", "memory_mb")


def read_postprocessing(
    arguments: argparse.Namespace, names: ParserNames, tokenizer: TokenizerSelection
) -> WorkerSettings:
    """Return the settings of a worker that post-processes; it may lack some of the flags."""
    flags = vars(arguments)

    def given(names: Iterable[str]) -> dict[str, Any]:
        return {name: flags[flag] for name in names if (flag := f"postprocess_{name}") in flags}

    delays = MERGE_DELAYS[arguments.postprocess_latency]
    delays = msgspec.structs.replace(delays, **arguments.postprocess_latency_ms)
    return WorkerSettings(
        names=names,
        tool_parser_plugin=getattr(arguments, "tool_parser_plugin", None) or None,
        postprocess=PostprocessSettings(delays=delays, **given(PLAIN_POSTPROCESS)),
        stock_frontends=arguments.postprocess_stock_frontends == ON,
        record=record_flags.read_record_settings(arguments),
        tokenizer=tokenizer,
        **given(PLAIN),
    )


def read_parser_names(arguments: argparse.Namespace) -> ParserNames:
    """Return the parsers that the flags name; an empty name means no parser."""
    return ParserNames(arguments.tool_call_parser or None, arguments.reasoning_parser or None)


# Flags of each engine that name files for detection, best first.
MODEL_FLAGS: dict[Engine, tuple[str, ...]] = {
    "vllm": ("tokenizer", "model"),
    "sglang": ("tokenizer_path", "model_path"),
    "trtllm": ("tokenizer", "model", "model_path"),
}
# SGLang's value may be the name of one of its own templates.
TEMPLATE_FLAGS = ("custom_jinja_template", "chat_template")


def list_known(engine: Engine, arguments: argparse.Namespace) -> Callable[[str], Collection[str]]:
    """Return a function that lists the names that the engine itself knows for a flag."""
    if engine == "sglang":
        return functools.partial(engine_names, arguments)  # its flags list them
    # The import of TensorRT-LLM starts MPI, so it is asked only if it is to parse.
    if engine == "trtllm" and arguments.postprocess_parsers != "native":
        return lambda _: ()
    known: Callable[[str], Collection[str]] = load_native_parsers(engine).known_names
    return known


def resolve_auto_names(
    arguments: argparse.Namespace,
    engine: Engine,
    chat_template: str | None = None,
) -> None:
    """Replace "auto" and "template" by the names of the model's parsers.

    Changes nothing without post-processing, because SGLang has its own "auto".
    chat_template: as for `resolve_auto`, whose errors this raises.
    """
    names = read_parser_names(arguments)
    if not asks_model(names) or not getattr(arguments, f"{engine}_processing"):
        return
    model = next(filter(None, (getattr(arguments, flag, None) for flag in MODEL_FLAGS[engine])), "")
    given = (chat_template, *(getattr(arguments, flag, None) for flag in TEMPLATE_FLAGS))
    templates = (str(path) for path in given if path and Path(path).is_file())
    found = resolve_auto(
        names,
        str(model),
        revision=getattr(arguments, "revision", None),
        chat_template=next(templates, None),
        known=list_known(engine, arguments),
        kind=arguments.postprocess_parsers,
    )
    arguments.tool_call_parser, arguments.reasoning_parser = found.tool_call, found.reasoning
