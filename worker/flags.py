"""The flags of a worker, as a table."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterable
from typing import Any, Literal, get_args

import msgspec

from ..parsers.base import ParserNames
from ..parsers.parser_lookup import Kind, known_formats, reasoning_format, tool_format
from ..postprocess.chunk_scheduler import MERGE_DELAYS, Latency, MergeDelays
from ..postprocess.fallback import OnError
from ..tokenization import flags as tokenizer_flags
from ..tokenization.flags import TokenizerSelection
from .pool import CORES_PER_PROCESS, MAX_AUTO_PROCESSES, PoolSettings, auto_processes

MS_PER_S = 1000


def described(latency: Latency) -> str:
    """Return a latency's bounds in words."""
    delays = msgspec.structs.asdict(MERGE_DELAYS[latency]).items()
    return (
        f"'{latency}' {', '.join(f'{kind} {seconds * MS_PER_S:g} ms' for kind, seconds in delays)}"
    )


def milliseconds(text: str) -> dict[str, float]:
    """Return bounds by kind, in seconds. Raises ArgumentTypeError for anything but KIND=MS,..."""
    delays: dict[str, float] = {}
    for part in text.split(","):
        kind, _, value = part.partition("=")
        try:
            delays[kind.strip()] = float(value) / MS_PER_S
        except ValueError:
            raise argparse.ArgumentTypeError(
                f"{part!r} is not KIND=MS, a number of milliseconds"
            ) from None
    unknown = delays.keys() - set(MergeDelays.__struct_fields__)
    if unknown:
        known = ", ".join(MergeDelays.__struct_fields__)
        raise argparse.ArgumentTypeError(
            f"there is no kind {', '.join(sorted(unknown))}; the kinds are {known}"
        )
    if not all(0 <= bound < math.inf for bound in delays.values()):
        raise argparse.ArgumentTypeError(f"{text!r}: a bound is 0 or more")
    return delays


def processes(text: str) -> int | None:
    """Return a number of processes, None for "auto". Raises ArgumentTypeError for anything else."""
    if text == "auto":
        return None
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is neither 'auto' nor 0 or more processes")
    return int(text)


def seconds(text: str) -> float:
    """Return a time. Raises ArgumentTypeError unless it is more than 0."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds, more than 0")
    return value


EngineName = Literal["vllm", "sglang"]
Flag = tuple[tuple[str, ...], dict[str, Any]]
GROUP = "Backedge: post-processing in the worker"
FOR_ANY_ENGINE = "--native-framework-processing"
VLLM_FLAGS: tuple[Flag, ...] = (
    (
        ("--tool-call-parser",),
        {"default": None, "help": "vLLM tool parser of the model, for --vllm-processing."},
    ),
    (
        ("--tool-parser-plugin",),
        {
            "default": None,
            "help": "Python file that registers a tool parser with vLLM, to be named by --tool-call-parser.",
        },
    ),
)
SHARED_FLAGS: tuple[Flag, ...] = (
    (
        ("--postprocess-parsers",),
        {
            "choices": get_args(Kind),
            "default": "auto",
            "help": "'linear' for Backedge's own parsers, 'native' for the engine's; 'auto' takes the linear ones "
            "where there are any for both names.",
        },
    ),
    (
        ("--postprocess-on-error",),
        {
            "choices": get_args(OnError),
            "default": "degrade",
            "help": "What a parser that raises does to its request: 'degrade' gives the raw text from there on, "
            "'fail' answers with an error.",
        },
    ),
    (
        ("--postprocess-workers",),
        {
            "type": processes,
            "default": "auto",
            "metavar": "N|auto",
            "help": "Processes for native parsers, so that a slow one holds up nobody else; 0 runs them in the event "
            "loop of the worker, as linear parsers always are. 'auto' takes one for every "
            f"{CORES_PER_PROCESS} cores, at most {MAX_AUTO_PROCESSES}.",
        },
    ),
    (
        ("--postprocess-deadline-s",),
        {
            "type": seconds,
            "default": 2.0,
            "metavar": "SECONDS",
            "help": "How long a native parser may take for one chunk, in a process of --postprocess-workers, before "
            "that is killed and the request treated as --postprocess-on-error says. Default: 2.",
        },
    ),
    (
        ("--postprocess-latency",),
        {
            "choices": get_args(Latency),
            "default": "balanced",
            "help": "How long deltas of a stream may wait for more of their kind, so that fewer chunks travel: "
            f"'lowest' never merges; {described('balanced')}; {described('throughput')}. "
            "The first delta and the finish never wait.",
        },
    ),
    (
        ("--postprocess-latency-ms",),
        {
            "type": milliseconds,
            "default": {},
            "metavar": "KIND=MS[,...]",
            "help": "MergeDelays of your own for some of the kinds, over those of --postprocess-latency: "
            f"{', '.join(MergeDelays.__struct_fields__)} (for example content=20,tools=500).",
        },
    ),
    *tokenizer_flags.FLAGS,
)


class WorkerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The flags of one worker, parsed; some are the engine's own. workers: None for "auto"."""

    names: ParserNames = ParserNames()
    tool_parser_plugin: str | None = None
    parsers: Kind = "auto"
    on_error: OnError = "degrade"
    delays: MergeDelays = MERGE_DELAYS["balanced"]
    workers: int | None = None
    deadline_s: float = 2.0
    tokenizer: TokenizerSelection = TokenizerSelection()

    def pool_processes(self, *, is_native: bool) -> int:
        """Return how many processes to start: linear parsers cost less than any hand-over."""
        if not is_native:
            return 0
        return auto_processes() if self.workers is None else self.workers

    def pool(
        self, count: int, build: str, arguments: dict[str, Any], parsers_name: str
    ) -> PoolSettings:
        """Return the pool's settings; the parameters are its fields."""
        return PoolSettings(
            processes=count,
            build=build,
            arguments=arguments,
            parsers_name=parsers_name,
            delays=self.delays,
            on_error=self.on_error,
            deadline_s=self.deadline_s,
        )


def enabling_flags(engine: EngineName) -> tuple[str, str]:
    """Return the names of the flag that switches post-processing on."""
    return f"--{engine}-processing", FOR_ANY_ENGINE


def list_flags(engine: EngineName) -> tuple[Flag, ...]:
    """Return all flags that we add to an engine's worker."""
    switch = {
        "dest": f"{engine}_processing",
        "action": "store_true",
        "help": "Detokenize, check stop strings and parse reasoning and tool calls in this worker, "
        "for every request that comes from a Backedge frontend.",
    }
    return (
        (enabling_flags(engine), switch),
        *(VLLM_FLAGS if engine == "vllm" else sglang_flags()),
        *SHARED_FLAGS,
    )


def sglang_flags() -> tuple[Flag, ...]:
    """Return the flags of SGLang's that take names of ours, too; it loads no file that registers a parser."""
    return tuple(
        ((flag,), {"choices": sorted(name for name in known_formats() if find(name) is not None)})
        for flag, find in (
            ("--tool-call-parser", tool_format),
            ("--reasoning-parser", reasoning_format),
        )
    )


def add_to(parser: argparse.ArgumentParser, engine: EngineName) -> None:
    """Add the flags to `parser`, less those it has (a frontend has vLLM's server flags, too)."""
    group = parser.add_argument_group(GROUP)
    known = parser._option_string_actions  # noqa: SLF001 - argparse has no other way to ask
    for names, options in list_flags(engine):
        there = next((known[name] for name in names if name in known), None)
        if there is None:
            group.add_argument(*names, **options)
        elif "choices" in options and there.choices:
            share(there, options["choices"])


def share(action: argparse.Action, choices: Iterable[str]) -> None:
    """Let a flag of the engine's take our `choices`, too, and None for not given; see `keep_engine_choices`."""
    own = tuple(action.choices or ())
    ENGINES_OWN[action.dest] = (action.default, own)
    action.choices = list(dict.fromkeys((*own, *choices)))
    action.default = None


FORMAT_OF = {"tool_call_parser": tool_format, "reasoning_parser": reasoning_format}
# Flags that mean something to the engine and to us: the engine's default and choices.
ENGINES_OWN: dict[str, tuple[Any, tuple[str, ...]]] = {}


def keep_engine_choices(arguments: argparse.Namespace) -> None:
    """Leave in `arguments` what the engine knows: its name for a choice of ours if it has one, else its default."""
    for dest, (default, own) in ENGINES_OWN.items():
        if (choice := getattr(arguments, dest)) not in own:
            format_ = FORMAT_OF.get(dest, lambda _: None)(choice)
            names = () if format_ is None else (format_.name, *format_.aliases)
            setattr(arguments, dest, next((name for name in names if name in own), default))


def settings(arguments: argparse.Namespace, engine: EngineName) -> WorkerSettings | None:
    """Return the settings, or None if post-processing is not asked for.

    Raises `SetupError` for flags that contradict each other.
    """
    if not getattr(arguments, f"{engine}_processing", False):
        return None
    return WorkerSettings(
        names=read_parser_names(arguments),
        tool_parser_plugin=getattr(arguments, "tool_parser_plugin", None) or None,
        parsers=arguments.postprocess_parsers,
        on_error=arguments.postprocess_on_error,
        delays=parse_merge_delays(arguments),
        workers=arguments.postprocess_workers,
        deadline_s=arguments.postprocess_deadline_s,
        tokenizer=tokenizer_flags.parse_tokenizer_flags(arguments),
    )


def read_parser_names(arguments: argparse.Namespace) -> ParserNames:
    """Return the parsers that the flags name; an empty name is none."""
    return ParserNames(arguments.tool_call_parser or None, arguments.reasoning_parser or None)


def parse_merge_delays(arguments: argparse.Namespace) -> MergeDelays:
    """Return the merge bounds that the flags ask for."""
    delays = MERGE_DELAYS[arguments.postprocess_latency]
    return msgspec.structs.replace(delays, **arguments.postprocess_latency_ms)
