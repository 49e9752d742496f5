"""The flags of a worker, as a table."""

from __future__ import annotations

import argparse
from typing import Any, get_args

import msgspec

from ..parsers.registry import Kind
from ..postprocess.guard import OnError

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
)


class WorkerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The flags of one worker, parsed. reasoning_parser is vLLM's own flag."""

    tool_call_parser: str | None = None
    reasoning_parser: str | None = None
    tool_parser_plugin: str | None = None
    parsers: Kind = "auto"
    on_error: OnError = "degrade"


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
    )
