"""Dynamo's vLLM forward edge, with the backward edge replaced."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

from dynamo.frontend.vllm_processor import VllmProcessor, _inject_routing_metadata

from ..parsers.base import ParserFactory
from ..parsers.native.vllm import VllmParsers
from ..parsers.registry import linear_parsers
from ..postprocess.detokenizer import detokenizers, vocabulary_of
from .envelopes import Envelope
from .factory import PARSER_NAMES
from .options import apply_options
from .respond import Responder, refusing
from .spec import build_spec
from .validation import check


class Processor(VllmProcessor):
    """Renders, tokenizes and routes as Dynamo does; what comes back, the worker has processed.

    Where it has not (a plain worker), the same code does it here, per stream.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._responder = Responder(self.routed_engine, detokenizers(self.tokenizer), self._parsers())

    def _parsers(self) -> ParserFactory:
        names = PARSER_NAMES.get()
        if names.native:
            return VllmParsers(self.tokenizer, names.tool_call, names.reasoning, self.input_processor.model_config)
        return linear_parsers(names.tool_call, names.reasoning, vocabulary_of(self.tokenizer))

    async def generator(self, request: dict[str, Any], context: Any = None) -> AsyncGenerator[Envelope, None]:
        """Answer one chat request; called by Dynamo.

        Raises InvalidArgument (HTTP 400) for a bad request, naming the field.
        """
        with refusing():
            apply_options(request)
            check(request)
            async for envelope in super().generator(request, context=context):
                yield envelope

    async def _generate_and_stream(
        self,
        request_id: str,
        request: dict[str, Any],
        dynamo_preproc: dict[str, Any],
        tokens: list[int],
        vllm_preproc: Any,
        post_processors: dict[int, Any],
        mm_routing_info: dict[str, Any] | None = None,
        context: Any = None,
    ) -> AsyncIterator[Envelope]:
        """Route the request and yield the response; overrides Dynamo's.

        post_processors: Dynamo's own, of which only the adjusted request is used.
        """
        spec = build_spec(
            request_id,
            request,
            dynamo_preproc,
            vllm_preproc.sampling_params,
            include_reasoning=post_processors[0].request_for_sampling.include_reasoning,
        )
        _inject_routing_metadata(dynamo_preproc, dynamo_preproc, mm_routing_info)
        async for envelope in self._responder.respond(spec, request["messages"], dynamo_preproc, context):
            yield envelope
