"""Preprocesses requests with a function that converts a request to its prompt.

Prompts that take less time than a thread switch are made in the event loop. The way to a thread and
back wakes two threads, which then compete for the interpreter. The time is measured for each model,
since its chat template may do anything.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TypeVar

from ..base.limits import (
    MAX_LOOP_RENDER_MS,
    MAX_MEAN_MS,
    MAX_SHORT_CHARACTERS,
    MAX_SHORT_MESSAGES,
    MAX_SHORT_MS,
)
from ..engines.dynamo.types import Context
from ..templates.rendering import SlowTemplateError, allowing
from ..tokenization.model_files import ModelFolder
from .chat_model import Prepared
from .containment import contained
from .prompt_queue import PromptQueue
from .request.chat_request import ChatRequest
from .request.preprocessed_request import (
    Prompt,
    build_parser_request,
    build_postprocess_params,
    build_preprocessed_request,
    to_json_object,
)
from .request.tool_schema_cache import check_request_schemas

R = TypeVar("R")

# So many short prompts in succession have taken less, before any is made in the event loop.
TRUSTED_AFTER = 64
# The weight of a new measurement in the average.
SMOOTHING = 1 / 32


def is_short(request: ChatRequest) -> bool:
    """Whether a prompt is short, judged without walking the request."""
    return (
        len(request.messages) <= MAX_SHORT_MESSAGES
        and not request.tools
        and request.response_format is None
        and request.guided_json is None
        and request.characters <= MAX_SHORT_CHARACTERS
    )


class ShortPrompts:
    """Records the time of one model's short prompts."""

    def __init__(self) -> None:
        self._quick = 0
        self._mean_ms = 0.0

    @property
    def trusted(self) -> bool:
        """Whether the next one may be built in the event loop."""
        return self._quick >= TRUSTED_AFTER and self._mean_ms <= MAX_MEAN_MS

    async def make(
        self,
        function: Callable[[ChatRequest], R],
        request: ChatRequest,
        queue: PromptQueue,
        context: Context | None,
    ) -> R:
        """Call `function(request)` for a short request, directly or in a thread of `queue`.

        Raises as `PromptQueue.run`.
        """

        def timed(request: ChatRequest) -> R:
            with self.timing():
                return function(request)

        if self.trusted:
            with contained(), suppress(SlowTemplateError), allowing(MAX_LOOP_RENDER_MS):
                return timed(request)
        return await queue.run(timed, request, characters=request.characters, context=context)

    @contextmanager
    def timing(self) -> Iterator[None]:
        """Record the time of a short prompt: CPU time, and the wait for a slow template."""
        began = time.thread_time()
        try:
            yield
        except SlowTemplateError as slow:
            began -= slow.waited_ms / 1000
            raise
        finally:
            self.note(time.thread_time() - began)

    def note(self, seconds: float) -> None:
        """Record the time of a short prompt."""
        milliseconds = seconds * 1000
        self._quick = 0 if milliseconds > MAX_SHORT_MS else self._quick + 1
        self._mean_ms += SMOOTHING * (milliseconds - self._mean_ms)


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
            secrets.token_hex(8), request, len(prompt.token_ids), parser
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
