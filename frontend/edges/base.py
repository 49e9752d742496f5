"""What a forward edge is."""

from __future__ import annotations

import abc
import argparse
from typing import Any

from ...parsers.parser_lookup import Kind
from ...postprocess.messages import WorkerCard
from ...tokenization.flags import TokenizerSelection
from ..chat_model import ChatModel
from ..parser_names import FrontendParsers, Native, configured_names, parser_names
from ..runtime.prompt_queue import PromptQueue


class ChatModelBuilder(abc.ABC):
    """The forward edge of one model.

    config: Dynamo's FrontendConfig. flags: as `dynamo.frontend` parsed them, with
        tool_call_parser, reasoning_parser and chat_template. choice: whose tokenizer.
    card: the model's. worker_card: of its workers, None if they are plain ones.
    """

    def __init__(
        self,
        config: Any,
        flags: argparse.Namespace,
        prompt_queue: PromptQueue,
        choice: TokenizerSelection,
        card: Any,
        worker_card: WorkerCard | None,
    ) -> None:
        self.config = config
        self.flags = flags
        self.prompt_queue = prompt_queue
        self.choice = choice
        self.card = card
        self.path: str = card.local_dir()
        self.runtime_config: dict[str, Any] = card.runtime_config()
        self.worker_card = worker_card
        self.configured = configured_names(flags, self.runtime_config, worker_card)

    @abc.abstractmethod
    async def model(self, instance_id: Any, routed_engine: Any) -> ChatModel:
        """Return the model, which Dynamo has discovered.

        Raises `SetupError` for a model whose files do not suffice, and
        `UnknownParserError` if there is no parser of a name that is configured.
        """

    def engine(self, default: str) -> str:
        """Return the engine of the model's workers; `default` where they do not say."""
        return default if self.worker_card is None else self.worker_card.engine

    def parsers(self, native: Native | None = None) -> FrontendParsers:
        """Return the model's parsers here; see `parser_names`."""
        kind: Kind = (
            getattr(self.flags, "postprocess_parsers", "auto") if native is not None else "linear"
        )
        return parser_names(self.configured, kind, native)
