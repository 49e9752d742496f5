"""Parses command lines with the flags that Dynamo and the engines have where they are installed."""

from __future__ import annotations

import argparse
import importlib
import pkgutil
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

from ...base.engines import load_engine_module
from ...base.flags import FlagParser, find_flags, run_parser
from ...parsers.api import Engine
from ...worker.flags import add_flags

RUNTIME = "dynamo.common.configuration.groups.runtime_args:DynamoRuntimeArgGroup"
ROUTER = "dynamo.common.configuration.groups.router_args:parse_worker_router_config"
FRONTEND_GROUP = "dynamo.frontend.frontend_args:FrontendArgGroup"


class Places(NamedTuple):
    """Where a worker has its flags. group: Dynamo's. engine, more: add the engine's.

    parser: the class of the engine's.
    """

    group: str
    engine: str
    parser: str = "argparse:ArgumentParser"
    more: str | None = None


PLACES: dict[Engine, Places] = {
    "vllm": Places(
        "dynamo.vllm.backend_args:DynamoVllmArgGroup",
        "vllm.engine.arg_utils:AsyncEngineArgs.add_cli_args",
        "vllm.utils.argparse_utils:FlexibleArgumentParser",
    ),
    "sglang": Places(
        "dynamo.sglang.backend_args:DynamoSGLangArgGroup",
        "sglang.srt.server_args:ServerArgs.add_cli_args",
        more="dynamo.sglang._compat:add_sglang_cli_compat",
    ),
}
# Dynamo takes TensorRT-LLM's flags one by one.
TRTLLM_GROUP = "dynamo.trtllm.backend_args:DynamoTrtllmArgGroup"
PARSE_TRTLLM = "dynamo.trtllm.args:parse_args"


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
    """Parse a worker's flags as its process does, and check them as Dynamo does.

    Returns Dynamo's flags, and ours with the engine's.
    Raises `SetupError` where the process would exit, OSError and ValueError as Dynamo,
    ImportError and AttributeError if Dynamo or the engine is missing or another version.
    """
    dynamo = FlagParser(add_help=False)
    add_group(dynamo, RUNTIME)
    if engine == "trtllm":
        return parse_trtllm(dynamo, arguments)
    importlib.import_module(f"dynamo.{engine}.args")  # by it the plugin knows a worker
    places = PLACES[engine]
    add_group(dynamo, places.group)
    own, rest = run_parser(dynamo.parse_known_args, arguments)
    _, rest = run_parser(pkgutil.resolve_name(ROUTER), rest)
    parser: argparse.ArgumentParser = pkgutil.resolve_name(places.parser)(add_help=False)
    for add in filter(None, (places.engine, places.more)):
        pkgutil.resolve_name(add)(parser)
    add_flags(parser, engine)
    given = run_parser(parser.parse_args, rest, list_flags(parser, dynamo))
    load_engine_module(engine, "worker").check_config(own, given)
    return own, given


def parse_trtllm(
    dynamo: FlagParser, arguments: Sequence[str]
) -> tuple[argparse.Namespace, argparse.Namespace]:
    """Parse the flags of a worker of TensorRT-LLM; as `parse_all`."""
    add_group(dynamo, TRTLLM_GROUP)
    ours = FlagParser(add_help=False)
    add_flags(ours, "trtllm")
    given, rest = run_parser(ours.parse_known_args, arguments)
    parse: Callable[[Sequence[str]], object] = pkgutil.resolve_name(PARSE_TRTLLM)
    run_parser(parse, rest, list_flags(ours, dynamo))
    own, _ = run_parser(dynamo.parse_known_args, rest)
    return own, given


def list_flags(*parsers: argparse.ArgumentParser) -> Iterator[str]:
    """Yield the names of the parsers' flags."""
    for parser in parsers:
        yield from find_flags(argparse.ArgumentParser.format_help(parser))
