"""The flags of a worker, as a table."""

from __future__ import annotations

import argparse
import math
from typing import Any, get_args

import msgspec

from ..parsers.registry import Kind
from ..postprocess.guard import OnError
from ..postprocess.merge import BOUNDS, Bounds, Latency
from ..postprocess.pool import CORES_PER_PROCESS, MAX_AUTO_PROCESSES, PoolSettings, auto_processes

MS_PER_S = 1000


def described(latency: Latency) -> str:
    """Return a latency's bounds in words."""
    bounds = msgspec.structs.asdict(BOUNDS[latency]).items()
    return f"'{latency}' {', '.join(f'{kind} {seconds * MS_PER_S:g} ms' for kind, seconds in bounds)}"


def milliseconds(text: str) -> dict[str, float]:
    """Return bounds by kind, in seconds. Raises ArgumentTypeError for anything but KIND=MS,..."""
    bounds: dict[str, float] = {}
    for part in text.split(","):
        kind, _, value = part.partition("=")
        try:
            bounds[kind.strip()] = float(value) / MS_PER_S
        except ValueError:
            raise argparse.ArgumentTypeError(f"{part!r} is not KIND=MS, a number of milliseconds") from None
    unknown = bounds.keys() - set(Bounds.__struct_fields__)
    if unknown:
        known = ", ".join(Bounds.__struct_fields__)
        raise argparse.ArgumentTypeError(f"there is no kind {', '.join(sorted(unknown))}; the kinds are {known}")
    if not all(0 <= bound < math.inf for bound in bounds.values()):
        raise argparse.ArgumentTypeError(f"{text!r}: a bound is 0 or more")
    return bounds


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


GROUP = "Backedge: post-processing in the worker"
ENABLING = ("--vllm-processing", "--native-framework-processing")
FLAGS: tuple[tuple[tuple[str, ...], dict[str, Any]], ...] = (
    (
        ENABLING,
        {
            "dest": "vllm_processing",
            "action": "store_true",
            "help": "Detokenize, check stop strings and parse reasoning and tool calls in this worker, "
            "for every request that comes from a Backedge frontend.",
        },
    ),
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
            "help": "Bounds of your own for some of the kinds, over those of --postprocess-latency: "
            f"{', '.join(Bounds.__struct_fields__)} (for example content=20,tools=500).",
        },
    ),
)


class WorkerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The flags of one worker, parsed. reasoning_parser is vLLM's own flag. workers: None for "auto"."""

    tool_call_parser: str | None = None
    reasoning_parser: str | None = None
    tool_parser_plugin: str | None = None
    parsers: Kind = "auto"
    on_error: OnError = "degrade"
    bounds: Bounds = BOUNDS["balanced"]
    workers: int | None = None
    deadline_s: float = 2.0

    def pool_processes(self, *, is_native: bool) -> int:
        """Return how many processes to start: linear parsers cost less than any hand-over."""
        if not is_native:
            return 0
        return auto_processes() if self.workers is None else self.workers

    def pool(self, count: int, build: str, arguments: dict[str, Any], parsers_name: str) -> PoolSettings:
        """Return the pool's settings; the parameters are its fields."""
        return PoolSettings(
            processes=count,
            build=build,
            arguments=arguments,
            parsers_name=parsers_name,
            bounds=self.bounds,
            on_error=self.on_error,
            deadline_s=self.deadline_s,
        )


def add_to(parser: argparse.ArgumentParser) -> None:
    """Add the flags to `parser`, less those it has (a frontend has vLLM's server flags, too)."""
    group = parser.add_argument_group(GROUP)
    for names, options in FLAGS:
        if not any(name in parser._option_string_actions for name in names):  # noqa: SLF001 - argparse has no other way to ask
            group.add_argument(*names, **options)


def settings(arguments: argparse.Namespace) -> WorkerSettings | None:
    """Return the settings, or None if post-processing is not asked for."""
    if not getattr(arguments, "vllm_processing", False):
        return None
    return WorkerSettings(
        tool_call_parser=arguments.tool_call_parser or None,
        reasoning_parser=arguments.reasoning_parser or None,
        tool_parser_plugin=arguments.tool_parser_plugin or None,
        parsers=arguments.postprocess_parsers,
        on_error=arguments.postprocess_on_error,
        bounds=bounds_of(arguments),
        workers=arguments.postprocess_workers,
        deadline_s=arguments.postprocess_deadline_s,
    )


def bounds_of(arguments: argparse.Namespace) -> Bounds:
    """Return the merge bounds that the flags ask for."""
    bounds = BOUNDS[arguments.postprocess_latency]
    return msgspec.structs.replace(bounds, **arguments.postprocess_latency_ms)
