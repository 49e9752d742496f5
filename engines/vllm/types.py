"""The parts of vLLM's objects, and of its Dynamo worker's, that this folder uses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from ..dynamo.types import DynamoParserFlags, Mode


class VllmEngineArgs(Protocol):
    """vLLM's `AsyncEngineArgs`."""

    model: str
    tokenizer: str | None
    trust_remote_code: bool

    def create_model_config(self) -> object:
        """Return vLLM's `ModelConfig`."""


class VllmConfig(DynamoParserFlags, Protocol):
    """`dynamo.vllm.args.Config`."""

    engine_args: VllmEngineArgs
    use_vllm_tokenizer: bool
    embedding_worker: bool
    classify_worker: bool
    headless: bool
    disaggregation_mode: Mode


class VllmDetokenizer(Protocol):
    """vLLM's detokenizer of one request."""

    def num_output_tokens(self) -> int:
        """Return the number of tokens generated so far."""


class VllmRequestState(Protocol):
    """`vllm.v1.engine.output_processor.RequestState`."""

    stream_interval: int
    sent_tokens_offset: int
    detokenizer: VllmDetokenizer


class VllmOutputProcessor(Protocol):
    """`vllm.v1.engine.output_processor.OutputProcessor`."""

    stream_interval: int
    request_states: Mapping[str, VllmRequestState]
    external_req_ids: Mapping[str, Sequence[str]]


class VllmModelConfig(Protocol):
    """vLLM's `ModelConfig`."""

    def get_vocab_size(self) -> int:
        """Return the number of token ids."""


class VllmEngine(Protocol):
    """The part of vLLM's `AsyncLLM` that running requests need."""

    output_processor: VllmOutputProcessor

    async def abort(self, request_id: str | list[str], internal: bool = False) -> None:
        """End requests."""


class VllmClient(VllmEngine, Protocol):
    """vLLM's `AsyncLLM`."""

    model_config: VllmModelConfig


class VllmHandler(Protocol):
    """`dynamo.vllm.handlers.DecodeWorkerHandler`."""

    engine_client: VllmClient
