"""vLLM's forward edge: one engine per model that Dynamo discovers."""

from __future__ import annotations

import argparse
import logging
from contextvars import ContextVar
from typing import Any

from dynamo.frontend import vllm_processor
from vllm.reasoning import ReasoningParserManager
from vllm.tool_parsers import ToolParserManager

from ..parsers.native.vllm import check_names
from ..parsers.registry import Kind, known_formats, uses_native
from .names import ParserNames, configured_names, warn_missing

logger = logging.getLogger(__name__)

# Dynamo's factory builds the processor itself; this is how the names get there.
PARSER_NAMES: ContextVar[ParserNames] = ContextVar("PARSER_NAMES")


class EngineFactory:
    """Dynamo's factory, with Backedge's processor in the place of Dynamo's.

    config: Dynamo's FrontendConfig. flags: vLLM's, as `dynamo.frontend` parsed them.
    """

    def __init__(self, config: Any, flags: argparse.Namespace) -> None:
        from .processor import Processor

        self._config = config
        self._flags = flags
        vllm_processor.VllmProcessor = Processor

    async def chat_engine_factory(self, instance_id: Any, card: Any, routed_engine: Any) -> Any:
        """Return the engine of one model, for Dynamo.

        Raises `UnknownParserError` if there is no parser of a name that is configured.
        """
        names = parser_names(self._flags, card.runtime_config())
        flags = argparse.Namespace(**vars(self._flags))
        # vLLM's forward edge renders and constrains with vLLM's parsers, if it has any of that name.
        flags.tool_call_parser = if_installed(ToolParserManager, names.tool_call)
        flags.reasoning_parser = if_installed(ReasoningParserManager, names.reasoning)
        PARSER_NAMES.set(names)
        logger.info("model %s: parsers %s", card.name(), names)
        stock = vllm_processor.EngineFactory(self._config, flags)
        return await stock.chat_engine_factory(instance_id, CardWithoutParsers(card), routed_engine)


class CardWithoutParsers:
    """A model card whose parser names have been read: Dynamo's factory would look them up again, in vLLM alone."""

    def __init__(self, card: Any) -> None:
        self._card = card

    def __getattr__(self, name: str) -> Any:
        return getattr(self._card, name)

    def runtime_config(self) -> dict[str, Any]:
        """See Dynamo's ModelDeploymentCard."""
        return {**self._card.runtime_config(), "tool_call_parser": None, "reasoning_parser": None}


def parser_names(flags: argparse.Namespace, runtime_config: dict[str, Any]) -> ParserNames:
    """Return the parsers of a model, as far as they are there in this frontend.

    Raises `UnknownParserError` for a name among the flags or on the card of a plain worker.
    """
    kind: Kind = getattr(flags, "postprocess_parsers", "auto")
    configured = configured_names(flags, runtime_config)
    names = configured.tool_call, configured.reasoning
    if not configured.by_worker:
        native = uses_native(kind, *names)
        if native:
            check_names(*names, also_known=known_formats())
        return ParserNames(*names, native)
    # A worker may use native parsers whatever this frontend's flag says.
    if not uses_native("native" if kind == "native" else "auto", *names):
        return ParserNames(*names)
    tool_call = if_installed(ToolParserManager, configured.tool_call)
    reasoning = if_installed(ReasoningParserManager, configured.reasoning)
    for name, installed in zip(names, (tool_call, reasoning), strict=True):
        if name and installed is None:
            warn_missing(name)
    return ParserNames(tool_call, reasoning, native=True)


def if_installed(manager: Any, name: str | None) -> str | None:
    """Return `name` if vLLM's `manager` has a parser of that name here, else None."""
    return name if name in manager.list_registered() else None
