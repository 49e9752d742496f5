"""One engine per model that Dynamo discovers."""

from __future__ import annotations

import argparse
import logging
from contextvars import ContextVar
from typing import Any

import msgspec
from dynamo.frontend import vllm_processor
from vllm.reasoning import ReasoningParserManager
from vllm.tool_parsers import ToolParserManager

from ..parsers.errors import ProtocolError
from ..parsers.native.vllm import check_names
from ..postprocess.messages import KEY, Capability, read

logger = logging.getLogger(__name__)


class ParserNames(msgspec.Struct, frozen=True):
    """The parsers of a model, as far as this frontend's vLLM has them."""

    tool_call: str | None
    reasoning: str | None


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

        Raises `UnknownParserError` if vLLM has no parser of a name that is configured.
        """
        names = parser_names(self._flags, card.runtime_config())
        flags = argparse.Namespace(**vars(self._flags))
        flags.tool_call_parser, flags.reasoning_parser = names.tool_call, names.reasoning
        PARSER_NAMES.set(names)
        logger.info("model %s: parsers %s", card.name(), names)
        stock = vllm_processor.EngineFactory(self._config, flags)
        return await stock.chat_engine_factory(instance_id, card, routed_engine)


def parser_names(flags: argparse.Namespace, runtime_config: dict[str, Any]) -> ParserNames:
    """Return the parser names for a model.

    A worker that post-processes knows best, and may have parsers that are not
    installed here (a plugin, a newer vLLM); the forward edge does without them.
    For a plain worker the frontend's flags count, then Dynamo's own names on its
    card, as in Dynamo. Raises `UnknownParserError` for a name among those.
    """
    try:
        capability = read(Capability, (runtime_config.get("runtime_data") or {}).get(KEY))
    except ProtocolError as error:
        logger.warning("the worker's capability is ignored: %s", error)
        capability = None
    if capability is None:
        tool_call = flags.tool_call_parser or runtime_config.get("tool_call_parser")
        reasoning = flags.reasoning_parser or runtime_config.get("reasoning_parser")
        check_names(tool_call, reasoning)
        return ParserNames(tool_call, reasoning)
    return ParserNames(
        if_installed(ToolParserManager, capability.tool_call_parser),
        if_installed(ReasoningParserManager, capability.reasoning_parser),
    )


def if_installed(manager: Any, name: str | None) -> str | None:
    """Return `name` if vLLM's `manager` has a parser of that name here, else None."""
    if name is None or name in manager.list_registered():
        return name
    logger.warning(
        "the worker's parser %r is not installed here; requests are rendered and constrained without it", name
    )
    return None
