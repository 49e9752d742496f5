"""The prompts of a model with a tokenizer class of the user's."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from ..base.errors import SetupError
from ..base.json_types import JsonObject
from ..tokenization import LazyTokenizer
from ..tokenization.model_files import ModelFolder, load_tokenizer_json
from ..tokenization.prompt_cache import PromptEncoder
from .chat_template import ChatTemplate, load_template


class PythonPrompts(ModelFolder):
    """Renders and tokenizes prompts with a tokenizer of the user's, as `ModelPrompts` with its own.

    The tokenizer's own chat template is used if it has one, otherwise the model's. If it only makes
    prompts, the model's tokenizer.json encodes and decodes text.
    chat_template, engine, context_length: as for `ModelPrompts`.
    """

    def __init__(
        self,
        own: LazyTokenizer,
        folder: str | Path,
        chat_template: str | None = None,
        engine: str = "vllm",
        context_length: int | None = None,
    ) -> None:
        self._own = own
        self._chat_template, self._engine = chat_template, engine
        super().__init__(folder, self._find_token, context_length)

    # Not at the start: the user's class is constructed with the first request.
    @functools.cached_property
    def tokenizer(self) -> Tokenizer | LazyTokenizer:
        """The tokenizer that decodes. Raises `SetupError` without a tokenizer.json if it must."""
        return self._own if self._own.converts_text else load_tokenizer_json(self.folder)

    @functools.cached_property
    def template(self) -> ChatTemplate:
        """The model's own chat template. Raises `SetupError` without one."""
        return load_template(self, self._chat_template, self._engine)

    def _find_token(self, text: str) -> int | None:
        try:
            if isinstance(self.tokenizer, Tokenizer):
                return self.tokenizer.token_to_id(text)
        except SetupError:
            return None
        token_ids = self.tokenizer.encode(text)
        return token_ids[0] if len(token_ids) == 1 else None

    def encode(self, text: str) -> list[int]:
        """Return the token ids of rendered text, which contains its special tokens as text."""
        if isinstance(self.tokenizer, Tokenizer):
            return PromptEncoder(self.tokenizer).encode(text)
        return self.tokenizer.encode(text)

    def prompt_token_ids(
        self,
        messages: list[JsonObject],
        tools: list[JsonObject] | None,
        *,
        model: str = "",
        **template_kwargs: Any,
    ) -> list[int]:
        """Return the prompt of a conversation. Raises `RequestError` and `TokenizerError`."""
        token_ids = self._own.prompt_token_ids(messages, tools, model=model, **template_kwargs)
        if token_ids is not None:
            return token_ids
        text = self.template.render(messages, tools, **template_kwargs)
        self.prompt_limit.check(text, lambda part: len(self._own.encode(part)))
        return self._own.encode(text)
