"""A forward edge that is a function from a request to its prompt; the rest of the request is made here."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from dynamo.frontend.utils import random_uuid

from ...tokenization.model_files import ModelFolder
from ..chat_model import Prepared, Request
from ..request.postprocess_params import build_postprocess_params
from ..request.sampling import build_preprocessed_request, read_sampling
from ..runtime.prompt_queue import PromptQueue


class Prompt(msgspec.Struct):
    """What a forward edge makes of a request.

    guided_decoding: in Dynamo's form, None if nothing constrains the answer.
    fields: further ones of the request as Dynamo routes it.
    """

    token_ids: list[int]
    guided_decoding: dict[str, Any] | None = None
    fields: dict[str, Any] = {}


class PromptPreprocessor:
    """See `chat_model.Preprocessor`.

    make_prompt: called in a thread; raises `RequestError` for a request that it cannot serve.
    context_length: of the workers, in tokens; None if they do not say.
    """

    def __init__(
        self,
        make_prompt: Callable[[Request], Prompt],
        folder: ModelFolder,
        prompt_queue: PromptQueue,
        context_length: int | None,
    ) -> None:
        self._make_prompt = make_prompt
        self._folder = folder
        self._offload = prompt_queue
        self._context_length = context_length or folder.context_length

    @asynccontextmanager
    async def __call__(self, request: Request, context: Any = None) -> AsyncIterator[Prepared]:
        """Prepare a request. Raises `RequestError`, and `BusyError` where too many requests wait."""
        preprocessed = await self.preprocess(request)
        include_reasoning = request.get("include_reasoning") is not False
        params = build_postprocess_params(
            random_uuid(),
            request,
            preprocessed,
            read_sampling(request),
            include_reasoning=include_reasoning,
        )
        yield Prepared(request, preprocessed, params)

    async def preprocess(self, request: Request) -> dict[str, Any]:
        """Return the request as Dynamo routes it, without the spec. Raises as `__call__`."""
        prompt = await self._offload.run(self._make_prompt, request)
        preprocessed = build_preprocessed_request(
            request, prompt.token_ids, self._folder, self._context_length, prompt.guided_decoding
        )
        return preprocessed | prompt.fields
