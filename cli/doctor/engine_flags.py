"""Parses command lines with the flags that Dynamo and the engines have where they are installed."""

from __future__ import annotations

import argparse
import contextlib
import io
import pkgutil
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol, TypeVar

from ...base.errors import SetupError
from ...base.flags import FlagParser, advise, find_flags
from ...parsers.api import Engine
from ...worker.flags import add_flags

A = TypeVar("A")
T = TypeVar("T")
RUNTIME = "dynamo.common.configuration.groups.runtime_args:DynamoRuntimeArgGroup"
ROUTER = "dynamo.common.configuration.groups.router_args:parse_worker_router_config"
FRONTEND_GROUP = "dynamo.frontend.frontend_args:FrontendArgGroup"


class Places(NamedTuple):
    """Where an engine's worker has its flags. group: Dynamo's. parser: its class.

    distribution: the engine's package. engine: adds the engine's flags; None if Dynamo takes them
        one by one. more: adds others.
    """

    group: str
    distribution: str
    engine: str | None = None
    parser: str = "argparse:ArgumentParser"
    more: str | None = None


PLACES: dict[Engine, Places] = {
    "vllm": Places(
        "dynamo.vllm.backend_args:DynamoVllmArgGroup",
        "vllm",
        "vllm.engine.arg_utils:AsyncEngineArgs.add_cli_args",
        "vllm.utils.argparse_utils:FlexibleArgumentParser",
    ),
    "sglang": Places(
        "dynamo.sglang.backend_args:DynamoSGLangArgGroup",
        "sglang",
        "sglang.srt.server_args:ServerArgs.add_cli_args",
        more="dynamo.sglang._compat:add_sglang_cli_compat",
    ),
    "trtllm": Places("dynamo.trtllm.backend_args:DynamoTrtllmArgGroup", "tensorrt-llm"),
}
# TensorRT-LLM's own options; Dynamo reads any name.
DYNAMIC = "--trtllm."


def run_parser(parse: Callable[[A], T], arguments: A, known: Iterable[str] = ()) -> T:
    """Call a process's own parser. Raises `SetupError` where it would exit.

    known: the flags of which the error suggests the nearest.
    """
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            return parse(arguments)
    except SystemExit as error:
        text = said.getvalue().rpartition("error: ")[2].strip() or error
        raise SetupError(advise(f"the command line: {text}", known)) from error


class ArgGroup(Protocol):
    """A group of Dynamo's flags."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the flags."""


def add_group(parser: argparse.ArgumentParser, place: str) -> None:
    """Add the flags of the group that `module:name` names; raises as `parse_all`."""
    group: Callable[[], ArgGroup] = pkgutil.resolve_name(place)
    group().add_arguments(parser)


def parse_all(
    engine: Engine, arguments: Sequence[str]
) -> tuple[argparse.Namespace, argparse.Namespace]:
    """Parse a worker's flags as its process does: Dynamo's, its router's, then the engine's.

    Returns Dynamo's and the engine's, which have ours.
    Raises `SetupError` where the process would exit, ImportError and AttributeError if Dynamo or
    the engine is missing or another version.
    """
    places = PLACES[engine]
    dynamo = FlagParser(add_help=False)
    for group in (RUNTIME, places.group):
        add_group(dynamo, group)
    own, rest = run_parser(dynamo.parse_known_args, arguments)
    _, rest = run_parser(pkgutil.resolve_name(ROUTER), rest)
    parser: argparse.ArgumentParser = pkgutil.resolve_name(places.parser)(add_help=False)
    for add in filter(None, (places.engine, places.more)):
        pkgutil.resolve_name(add)(parser)
    add_flags(parser, engine)
    if engine == "trtllm":
        rest = [word for word in rest if not word.startswith(DYNAMIC)]
    helps = (argparse.ArgumentParser.format_help(parser), dynamo.format_help())
    return own, run_parser(parser.parse_args, rest, find_flags("\n".join(helps)))
