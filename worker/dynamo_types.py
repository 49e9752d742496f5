"""What the worker uses of Dynamo's and the engines' objects, as types.

Neither Dynamo nor the engines are imported for it. `EngineSupport` checks at start that
the functions which take and return these objects look as expected.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Protocol, TypeAlias

from ..parsers.json_types import JsonObject

Endpoint: TypeAlias = object
"""Dynamo's endpoint; only passed on."""


class RequestContext(Protocol):
    """Dynamo's `Context` of one request."""

    def id(self) -> str:
        """Return the request's id."""
        ...

    def is_stopped(self) -> bool:
        """Return whether the client is gone."""
        ...


class ResponseSender(Protocol):
    """Dynamo's sink for the chunks of one response."""

    def send(self, chunk: object) -> None:
        """Send a chunk. Blocks while the frontend is behind; raises RuntimeError if it is gone."""
        ...

    def close(self) -> None:
        """End the response, all of which has been sent."""
        ...


class RuntimeConfig(Protocol):
    """Dynamo's `ModelRuntimeConfig`, part of the model card."""

    def set_engine_specific(self, key: str, value: str) -> None:
        """Put a value, as JSON text, into `runtime_data`."""
        ...


class DynamoParserFlags(Protocol):
    """Dynamo's flags of a worker that name the parsers of its Rust frontend."""

    dyn_tool_call_parser: str | None
    dyn_reasoning_parser: str | None


class Mode(Protocol):
    """An enum of Dynamo's: how prefill and decode are divided among workers."""

    @property
    def value(self) -> str:
        """Its value: "agg", "prefill", "decode" or "encode"."""
        ...


# vLLM.


class VllmEngineArgs(Protocol):
    """vLLM's `AsyncEngineArgs`."""

    model: str
    tokenizer: str | None
    trust_remote_code: bool

    def create_model_config(self) -> object:
        """Return vLLM's `ModelConfig`."""
        ...


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
        ...


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
        ...


class VllmEngine(Protocol):
    """vLLM's `AsyncLLM`, as far as running requests need it."""

    output_processor: VllmOutputProcessor

    async def abort(self, request_id: str | list[str], internal: bool = False) -> None:
        """End requests."""
        ...


class VllmClient(VllmEngine, Protocol):
    """vLLM's `AsyncLLM`."""

    model_config: VllmModelConfig


class VllmHandler(Protocol):
    """`dynamo.vllm.handlers.DecodeWorkerHandler`."""

    engine_client: VllmClient


# SGLang.


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
    """`sglang.srt.configs.model_config.ModelConfig`. vocab_size: the number of token ids."""

    vocab_size: int


class SglangTokenizerManager(Protocol):
    """SGLang's `TokenizerManager`."""

    rid_to_state: Mapping[str, SglangRequestState]

    def abort_request(self, rid: str) -> None:
        """End a request."""
        ...


class SglangEngine(Protocol):
    """SGLang's `Engine`."""

    tokenizer_manager: SglangTokenizerManager


class SglangHandler(Protocol):
    """`dynamo.sglang.request_handlers.DecodeWorkerHandler`."""

    engine: SglangEngine


# TensorRT-LLM.


class TrtllmConfig(DynamoParserFlags, Protocol):
    """`dynamo.trtllm.args.Config`. modality: an enum; "text" and "multimodal" generate text."""

    model: str
    disaggregation_mode: Mode
    modality: Mode


class TrtllmRequest(Protocol):
    """`tensorrt_llm.executor.result.GenerationResult`, or Dynamo's guard of one."""

    def abort(self) -> None:
        """End the request with all its choices."""
        ...


class TrtllmHandler(Protocol):
    """`dynamo.trtllm.request_handlers.handler_base.HandlerBase`; only passed on."""
