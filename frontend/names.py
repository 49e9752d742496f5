"""The parsers of a model, from the frontend's flags and the model's card."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Callable, Collection
from typing import Any

import msgspec

from ..parsers.errors import ProtocolError
from ..parsers.registry import Kind, known_formats, reasoning_format, tool_format, uses_native
from ..postprocess.messages import KEY, Capability, read

logger = logging.getLogger(__name__)


class ParserNames(msgspec.Struct, frozen=True):
    """The parsers with which this frontend post-processes a model's streams where the worker does not.

    native: the engine's own, not the linear ones.
    """

    tool_call: str | None
    reasoning: str | None
    native: bool = False


class Native(msgspec.Struct, frozen=True):
    """An engine's own parsers, as far as they are installed here.

    check_names: raises `UnknownParserError` for a name that is none of them.
    """

    check_names: Callable[..., None]
    tool_call: Callable[[], Collection[str]]
    reasoning: Callable[[], Collection[str]]


class ConfiguredNames(msgspec.Struct, frozen=True):
    """The names that are set for a model. by_worker: by a worker that post-processes; it knows them."""

    tool_call: str | None
    reasoning: str | None
    by_worker: bool


def capability_of(runtime_config: dict[str, Any]) -> Capability | None:
    """Return what a model's workers say of themselves on its card, None if they are plain ones."""
    try:
        return read(Capability, (runtime_config.get("runtime_data") or {}).get(KEY))
    except ProtocolError as error:
        logger.warning("the worker's capability is ignored: %s", error)
        return None


def engine_of(runtime_config: dict[str, Any], default: str) -> str:
    """Return the engine of a model's workers; `default` where they do not say."""
    capability = capability_of(runtime_config)
    return default if capability is None else capability.engine


def configured_names(flags: argparse.Namespace, runtime_config: dict[str, Any]) -> ConfiguredNames:
    """Return the parser names for a model.

    A worker that post-processes knows best, and may have parsers that are not
    installed here (a plugin, a newer engine). For a plain worker the frontend's flags
    count, then Dynamo's own names on its card, as in Dynamo.
    """
    capability = capability_of(runtime_config)
    if capability is not None:
        return ConfiguredNames(capability.tool_call_parser, capability.reasoning_parser, by_worker=True)
    return ConfiguredNames(
        flags.tool_call_parser or runtime_config.get("tool_call_parser"),
        flags.reasoning_parser or runtime_config.get("reasoning_parser"),
        by_worker=False,
    )


def parser_names(
    flags: argparse.Namespace, runtime_config: dict[str, Any], native: Native | None = None
) -> ParserNames:
    """Return the parsers of a model, as far as they are there in this frontend.

    native: the engine's, None for the linear ones alone.
    Raises `UnknownParserError` for a name among the flags or on the card of a plain worker.
    """
    configured = configured_names(flags, runtime_config)
    names = configured.tool_call, configured.reasoning
    kind: Kind = getattr(flags, "postprocess_parsers", "auto") if native is not None else "linear"
    if not configured.by_worker:
        is_native = uses_native(kind, *names)
        if is_native and native is not None:
            native.check_names(*names, also_known=known_formats())
        return ParserNames(*names, is_native)
    # A worker may use native parsers whatever this frontend's flag says.
    if native is None:
        return ParserNames(
            _if_known(configured.tool_call, tool_format), _if_known(configured.reasoning, reasoning_format)
        )
    if not uses_native("native" if kind == "native" else "auto", *names):
        return ParserNames(*names)
    tool_call, reasoning = native.tool_call(), native.reasoning()
    return ParserNames(
        _if_known(configured.tool_call, lambda name: name in tool_call or None),
        _if_known(configured.reasoning, lambda name: name in reasoning or None),
        native=True,
    )


def _if_known(name: str | None, find: Callable[[str], object | None]) -> str | None:
    """Return `name`, or None if `find` finds nothing; then it says so in the log."""
    if name is None or find(name) is not None:
        return name
    logger.warning(
        "the worker's parser %r is not installed here; requests are rendered and constrained without it", name
    )
    return None
