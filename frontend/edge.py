"""What a forward edge is."""

from __future__ import annotations

import abc
import argparse
from typing import Any

from ..parsers.registry import Kind
from ..postprocess.messages import Capability
from .chat_model import ChatModel
from .names import Native, ParserNames, configured_names, parser_names
from .offload import Offload
from .tokenizers.choice import TokenizerChoice


class ForwardEdge(abc.ABC):
    """The forward edge of one model.

    config: Dynamo's FrontendConfig. flags: as `dynamo.frontend` parsed them, with
        tool_call_parser, reasoning_parser and chat_template. choice: whose tokenizer.
    card: the model's. capability: of its workers, None if they are plain ones.
    """

    def __init__(
        self,
        config: Any,
        flags: argparse.Namespace,
        offload: Offload,
        choice: TokenizerChoice,
        card: Any,
        capability: Capability | None,
    ) -> None:
        self.config = config
        self.flags = flags
        self.offload = offload
        self.choice = choice
        self.card = card
        self.path: str = card.local_dir()
        self.runtime_config: dict[str, Any] = card.runtime_config()
        self.capability = capability
        self.configured = configured_names(flags, self.runtime_config, capability)

    @abc.abstractmethod
    async def model(self, instance_id: Any, routed_engine: Any) -> ChatModel:
        """Return the model, which Dynamo has discovered.

        Raises `SetupError` for a model whose files do not suffice, and
        `UnknownParserError` if there is no parser of a name that is configured.
        """

    def engine(self, default: str) -> str:
        """Return the engine of the model's workers; `default` where they do not say."""
        return default if self.capability is None else self.capability.engine

    def names(self, native: Native | None = None) -> ParserNames:
        """Return the model's parsers here; see `parser_names`."""
        kind: Kind = getattr(self.flags, "postprocess_parsers", "auto") if native is not None else "linear"
        return parser_names(self.configured, kind, native)
