"""The parsers of a model, from the frontend's flags and the model's card."""

from __future__ import annotations

import argparse
import logging
from typing import Any

import msgspec

from ..parsers.errors import ProtocolError
from ..postprocess.messages import KEY, Capability, read

logger = logging.getLogger(__name__)


class ParserNames(msgspec.Struct, frozen=True):
    """The parsers with which this frontend post-processes a model's streams where the worker does not.

    native: vLLM's own, not the linear ones.
    """

    tool_call: str | None
    reasoning: str | None
    native: bool = False


class ConfiguredNames(msgspec.Struct, frozen=True):
    """The names that are set for a model. by_worker: by a worker that post-processes; it knows them."""

    tool_call: str | None
    reasoning: str | None
    by_worker: bool


def configured_names(flags: argparse.Namespace, runtime_config: dict[str, Any]) -> ConfiguredNames:
    """Return the parser names for a model.

    A worker that post-processes knows best, and may have parsers that are not
    installed here (a plugin, a newer vLLM). For a plain worker the frontend's flags
    count, then Dynamo's own names on its card, as in Dynamo.
    """
    try:
        capability = read(Capability, (runtime_config.get("runtime_data") or {}).get(KEY))
    except ProtocolError as error:
        logger.warning("the worker's capability is ignored: %s", error)
        capability = None
    if capability is not None:
        return ConfiguredNames(capability.tool_call_parser, capability.reasoning_parser, by_worker=True)
    return ConfiguredNames(
        flags.tool_call_parser or runtime_config.get("tool_call_parser"),
        flags.reasoning_parser or runtime_config.get("reasoning_parser"),
        by_worker=False,
    )


def warn_missing(name: str) -> None:
    """Log that a worker's parser is not there in this frontend."""
    logger.warning(
        "the worker's parser %r is not installed here; requests are rendered and constrained without it", name
    )
