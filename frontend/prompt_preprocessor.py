"""Preprocesses requests with a function that converts a request to its prompt."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from dynamo.frontend.utils import random_uuid

from ..engines.dynamo.types import Context
from ..tokenization.model_files import ModelFolder
from .chat_model import Prepared
from .request.chat_request import ChatRequest
from .request.postprocess_params import build_parser_request, build_postprocess_params
from .request.preprocessed_request import Prompt, build_preprocessed_request, to_json_object
from .request.sampling import read_sampling
from .request.tool_schemas import check_request_schemas
from .runtime.prompt_queue import PromptQueue
from .runtime.short_prompts import ShortPrompts, is_short


class PromptPreprocessor:
    """A `chat_model.Preprocessor` that builds long prompts in threads, and short ones directly.

    make_prompt: raises `RequestError` for a request that it cannot serve.
    context_length: of the workers, in tokens; None if unknown.
    may_block: `make_prompt` may block, so it must run in a thread.
    """

    def __init__(
        self,
        make_prompt: Callable[[ChatRequest], Prompt],
        folder: ModelFolder,
        prompt_queue: PromptQueue,
        context_length: int | None,
        *,
        may_block: bool = False,
    ) -> None:
        self._make_prompt = make_prompt
        self._may_block = may_block
        self._short_prompts = ShortPrompts()
        self._folder = folder
        self._prompt_queue = prompt_queue
        self._context_length = context_length or folder.context_length

    @asynccontextmanager
    async def __call__(
        self, request: ChatRequest, context: Context | None = None
    ) -> AsyncIterator[Prepared]:
        """Prepare a request.

        Raises `RequestError`, and as `PromptQueue.run`.
        """
        prompt = await self._run(request, context)
        preprocessed = build_preprocessed_request(
            request, prompt, self._folder, self._context_length
        )
        parser = build_parser_request(
            request,
            prompt.guided_decoding,
            prompt.engine_fields.chat_template_kwargs,
            include_reasoning=request.include_reasoning is not False,
        )
        params = build_postprocess_params(
            random_uuid(), request, read_sampling(request), len(prompt.token_ids), parser
        )
        yield Prepared(request, to_json_object(preprocessed), params)

    async def _run(self, request: ChatRequest, context: Context | None) -> Prompt:
        """Build a request's prompt where it is cheaper. Raises as `__call__`."""
        make, queue = self._check_and_make_prompt, self._prompt_queue
        if not self._may_block and is_short(request):
            return await self._short_prompts.make(make, request, queue, context)
        return await queue.run(make, request, characters=request.characters, context=context)

    def _check_and_make_prompt(self, request: ChatRequest) -> Prompt:
        check_request_schemas(request)
        return self._make_prompt(request)
