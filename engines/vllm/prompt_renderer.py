"""Renders and tokenizes prompts, replacing vLLM's renderer for chat templates."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

import msgspec
from vllm.exceptions import VLLMValidationError
from vllm.renderers import hf

from ...base.errors import RequestError
from ...base.json_types import JsonObject
from ...frontend.containment import PreparationError
from ...frontend.prompt_queue import PromptQueue
from ...frontend.request.preprocessed_request import prompt_error
from ...templates.chat_template import format_tools
from ...templates.rendering import SlowTemplateError
from ...tokenization.prompt_cache import PromptEncoder, PromptLimit


class Rendering(msgspec.Struct, frozen=True):
    """How to build the prompt of the current request.

    in_place: in the current thread, because it is short. encodes: also tokenize the text;
        otherwise Dynamo does so.
    """

    in_place: bool = False
    encodes: bool = True


RENDERING: ContextVar[Rendering] = ContextVar("RENDERING")


class PromptRenderer:
    """Replaces `HfRenderer._apply_chat_template_async`.

    It writes tools as `engine` does, and enforces the limits of chat templates.
    tokenizer: of transformers, not vLLM's pool. encoder: None if Dynamo is to tokenize.
    limit: of the rendered text. queue: renders the prompts that are not short.
    """

    def __init__(
        self,
        tokenizer: Any,
        encoder: PromptEncoder | None,
        engine: str,
        limit: PromptLimit,
        queue: PromptQueue,
    ) -> None:
        self._tokenizer = tokenizer
        self._encoder = encoder
        self._engine = engine
        self._limit = limit
        self._queue = queue

    async def __call__(
        self, model_config: object, _pool: object, conversation: object, **options: Any
    ) -> object:
        """Return the text of a prompt, with its token ids unless Dynamo is to tokenize it.

        Raises `RequestError` for messages that the template rejects and for a prompt that is too
        long, and `PreparationError` for exceptions that would end an event loop.
        """
        how = RENDERING.get()

        def make() -> object:
            text = self._render(model_config, conversation, **options)
            return self._encode(text) if how.encodes and isinstance(text, str) else text

        if how.in_place:
            return make()
        return await self._queue.compute(make)

    def _render(
        self,
        model_config: object,
        conversation: object,
        *,
        tools: list[JsonObject] | None = None,
        **options: object,
    ) -> object:
        formatted = tools if self._engine == "vllm" else format_tools(tools, self._engine)
        try:
            made = hf.safe_apply_chat_template(
                model_config, self._tokenizer, conversation, tools=formatted, **options
            )
        except VLLMValidationError as error:
            raise RequestError.rejected(error) from error
        except (Exception, SlowTemplateError):
            raise
        except BaseException as error:
            raise PreparationError(error) from error
        if isinstance(made, str):
            self._limit.check(made, self._count_tokens)
        return made

    def _count_tokens(self, text: str) -> int:
        if self._encoder is not None:
            return len(self._encoder.encode_whole(text))
        return len(self._tokenizer.encode(text, add_special_tokens=False))

    def _encode(self, text: str) -> str | JsonObject:
        """Return vLLM's prompt with the token ids of a text. Raises `RequestError`."""
        if self._encoder is None:
            return text
        token_ids = self._encoder.encode(text)
        longest = self._limit.context_length
        if longest is not None and len(token_ids) >= longest:
            raise prompt_error(len(token_ids), longest)
        return {"prompt": text, "prompt_token_ids": token_ids}
