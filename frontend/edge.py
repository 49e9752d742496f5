"""What a forward edge is."""

from __future__ import annotations

import abc
import argparse
from typing import Any

from .chat_model import ChatModel
from .offload import Offload
from .tokenizers.choice import TokenizerChoice


class ForwardEdge(abc.ABC):
    """The forward edge of all models that choose it.

    config: Dynamo's FrontendConfig. flags: as `dynamo.frontend` parsed them, with
        tool_call_parser, reasoning_parser and chat_template. choice: whose tokenizer.
    """

    def __init__(self, config: Any, flags: argparse.Namespace, choice: TokenizerChoice, offload: Offload) -> None:
        self.config = config
        self.flags = flags
        self.choice = choice
        self.offload = offload

    @abc.abstractmethod
    async def model(self, instance_id: Any, card: Any, routed_engine: Any) -> ChatModel:
        """Return a model that Dynamo has discovered.

        Raises `SetupError` for a model whose files do not suffice, and
        `UnknownParserError` if there is no parser of a name that is configured.
        """
