"""Dynamo's vLLM forward edge, with the backward edge replaced."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from http import HTTPStatus
from typing import Any

from dynamo.frontend.utils import extract_mm_urls
from dynamo.frontend.vllm_processor import VllmProcessor, _inject_routing_metadata
from dynamo.llm.exceptions import HttpError, InvalidArgument, Unknown, WorkerUnavailable

from ..parsers.errors import RequestError
from ..parsers.native.vllm import VllmParsers
from ..postprocess.detokenizer import detokenizers
from ..postprocess.messages import KEY, Spec, encode
from ..postprocess.request import Postprocessor
from .envelopes import Envelope, EnvelopeWriter
from .factory import PARSER_NAMES
from .options import apply_options
from .spec import build_spec
from .stream import StreamReader, WorkerError
from .validation import check

logger = logging.getLogger(__name__)

MEDIA_COUNTS = {"image_url": "image_count", "video_url": "video_count", "audio_url": "audio_count"}


class Processor(VllmProcessor):
    """Renders, tokenizes and routes as Dynamo does; what comes back, the worker has processed.

    Where it has not (a plain worker), the same code does it here, per stream.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        names = PARSER_NAMES.get()
        self._detokenizers = detokenizers(self.tokenizer)
        self._parsers = VllmParsers(self.tokenizer, names.tool_call, names.reasoning, self.input_processor.model_config)

    async def generator(self, request: dict[str, Any], context: Any = None) -> AsyncGenerator[Envelope, None]:
        """Answer one chat request; called by Dynamo.

        Raises InvalidArgument (HTTP 400) for a bad request, naming the field.
        """
        try:
            apply_options(request)
            check(request)
            async for envelope in super().generator(request, context=context):
                yield envelope
        except RequestError as error:
            raise InvalidArgument(str(error)) from error
        except HttpError as error:
            # Dynamo shows the client the text of this type only.
            if error.code == HTTPStatus.BAD_REQUEST:
                raise InvalidArgument(error.message) from error
            raise
        except ValueError as error:
            # Of the forward edge: vLLM's and pydantic's checks, with their text.
            raise InvalidArgument(str(error)) from error

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
            request_id, request, post_processors[0].request_for_sampling, vllm_preproc.sampling_params, dynamo_preproc
        )
        _inject_routing_metadata(dynamo_preproc, dynamo_preproc, mm_routing_info)
        dynamo_preproc.setdefault("extra_args", {})[KEY] = encode(spec)
        media, _ = extract_mm_urls(request["messages"])
        counts = {MEDIA_COUNTS[kind]: len(items) for kind, items in (media or {}).items() if items}
        writer = EnvelopeWriter(spec, counts)
        reader = StreamReader(spec, self._postprocessor(spec, tokens))
        try:
            async for chunk, post in reader.read(self.routed_engine, dynamo_preproc, context):
                for envelope in writer.write(chunk, post):
                    yield envelope
        except WorkerError as error:
            logger.warning("request %s: %s", spec.response_id, error)
            raise (WorkerUnavailable if error.retryable else Unknown)(str(error)) from error

    def _postprocessor(self, spec: Spec, tokens: list[int]) -> Callable[[], Postprocessor]:
        """Return what makes the post-processor for this request, if its worker has none."""
        return lambda: Postprocessor(spec, self._detokenizers, self._parsers, prompt_token_ids=tokens)
