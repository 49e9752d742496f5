"""The parts of TensorRT-LLM's objects, and of its Dynamo worker's, that this folder uses."""

from __future__ import annotations

from typing import Protocol

from ..dynamo.types import DynamoParserFlags, Mode


class TrtllmConfig(DynamoParserFlags, Protocol):
    """`dynamo.trtllm.args.Config`. modality: an enum; "text" and "multimodal" generate text."""

    model: str
    disaggregation_mode: Mode
    modality: Mode


class TrtllmRequest(Protocol):
    """`tensorrt_llm.executor.result.GenerationResult`, or Dynamo's guard of one."""

    def abort(self) -> None:
        """End the request with all its choices."""


class TrtllmHandler(Protocol):
    """`dynamo.trtllm.request_handlers.handler_base.HandlerBase`; only passed on."""
