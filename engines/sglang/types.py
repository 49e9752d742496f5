"""The parts of SGLang's objects, and of its Dynamo worker's, that this folder uses."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Protocol

from ...base.json_types import JsonObject
from ..dynamo.types import DynamoParserFlags, Mode


class SglangServerArgs(Protocol):
    """SGLang's `ServerArgs`."""

    model_path: str
    tokenizer_path: str | None


class SglangDynamoArgs(DynamoParserFlags, Protocol):
    """Dynamo's flags of its SGLang worker."""

    use_sglang_tokenizer: bool


class SglangConfig(Protocol):
    """`dynamo.sglang.args.Config`."""

    server_args: SglangServerArgs
    dynamo_args: SglangDynamoArgs
    serving_mode: Mode


class SglangRequestState(Protocol):
    """`sglang.srt.managers.tokenizer_manager.ReqState`."""

    out_list: list[JsonObject]
    finished: bool
    event: asyncio.Event


class SglangModelConfig(Protocol):
    """`sglang.srt.configs.model_config.ModelConfig`. vocab_size: number of token ids."""

    vocab_size: int


class SglangTokenizerManager(Protocol):
    """SGLang's `TokenizerManager`."""

    rid_to_state: Mapping[str, SglangRequestState]

    def abort_request(self, rid: str) -> None:
        """End a request."""


class SglangEngine(Protocol):
    """SGLang's `Engine`."""

    tokenizer_manager: SglangTokenizerManager


class SglangHandler(Protocol):
    """`dynamo.sglang.request_handlers.DecodeWorkerHandler`."""

    engine: SglangEngine
