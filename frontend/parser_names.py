"""The parsers of a model, from the frontend's flags and the model's card."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Callable, Collection, Iterable
from typing import Any

import msgspec

from ..parsers.base import ParserNames
from ..parsers.errors import ProtocolError
from ..parsers.parser_lookup import Kind, known_formats, reasoning_format, tool_format, uses_native
from ..postprocess.messages import KEY, WorkerCard, read

logger = logging.getLogger(__name__)


class FrontendParsers(msgspec.Struct, frozen=True):
    """The parsers with which this frontend post-processes a model's streams where the worker does not.

    native: they are the engine's own, not the linear ones.
    """

    names: ParserNames
    native: bool = False


class Native(msgspec.Struct, frozen=True):
    """An engine's own parsers, as far as they are installed here.

    check_names: raises `UnknownParserError` for a name that is none of them.
    """

    check_names: Callable[[ParserNames, Iterable[str]], None]
    tool_call: Callable[[], Collection[str]]
    reasoning: Callable[[], Collection[str]]

    def installed(self, names: ParserNames) -> ParserNames:
        """Return those of the two names that are among them, None for another."""
        return ParserNames(
            names.tool_call if names.tool_call in self.tool_call() else None,
            names.reasoning if names.reasoning in self.reasoning() else None,
        )


class ConfiguredParsers(msgspec.Struct, frozen=True):
    """The parsers that are set for a model. by_worker: by a worker that post-processes; it knows them."""

    names: ParserNames
    by_worker: bool


def read_worker_card(runtime_config: dict[str, Any]) -> WorkerCard | None:
    """Return what a model's workers say of themselves on its card, None if they are plain ones."""
    try:
        return read(WorkerCard, (runtime_config.get("runtime_data") or {}).get(KEY))
    except ProtocolError as error:
        logger.warning("the worker's worker_card is ignored: %s", error)
        return None


def configured_names(
    flags: argparse.Namespace, runtime_config: dict[str, Any], worker_card: WorkerCard | None
) -> ConfiguredParsers:
    """Return the parser names for a model. worker_card: of its workers.

    A worker that post-processes knows best, and may have parsers that are not
    installed here (a plugin, a newer engine). For a plain worker the frontend's flags
    count, then Dynamo's own names on its card, as in Dynamo.
    """
    if worker_card is not None:
        names = ParserNames(worker_card.tool_call_parser, worker_card.reasoning_parser)
        return ConfiguredParsers(names, by_worker=True)
    names = ParserNames(
        flags.tool_call_parser or runtime_config.get("tool_call_parser"),
        flags.reasoning_parser or runtime_config.get("reasoning_parser"),
    )
    return ConfiguredParsers(names, by_worker=False)


def parser_names(
    configured: ConfiguredParsers, kind: Kind = "linear", native: Native | None = None
) -> FrontendParsers:
    """Return the parsers of a model, as far as they are there in this frontend.

    kind: what the frontend's flag says, where an engine's parsers are there. native:
        these, None for the linear ones alone.
    Raises `UnknownParserError` for a name among the flags or on the card of a plain worker.
    """
    names = configured.names
    if not configured.by_worker:
        is_native = uses_native(kind, names)
        if is_native and native is not None:
            native.check_names(names, known_formats())
        return FrontendParsers(names, is_native)
    # A worker may use native parsers whatever this frontend's flag says.
    if native is not None and not uses_native("native" if kind == "native" else "auto", names):
        return FrontendParsers(names)
    here = _linear(names) if native is None else native.installed(names)
    for name in {names.tool_call, names.reasoning} - {here.tool_call, here.reasoning}:
        logger.warning(
            "the worker's parser %r is not installed here; requests are rendered and constrained without it",
            name,
        )
    return FrontendParsers(here, native=native is not None)


def _linear(names: ParserNames) -> ParserNames:
    """Return those of the two names that have a linear parser, None for another."""
    return ParserNames(
        names.tool_call if names.tool_call and tool_format(names.tool_call) else None,
        names.reasoning if names.reasoning and reasoning_format(names.reasoning) else None,
    )
