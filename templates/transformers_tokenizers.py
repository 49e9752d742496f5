"""Limits the templates of transformers' tokenizers, with which vLLM and SGLang make prompts.

transformers renders a template in place and passes on all variables. A process of the template's
creates the same text, within limits.

`make_encoder` adds the prompt cache and holds the interpreter lock for a shorter time: for a prompt
of 200,000 tokens, transformers makes three lists, and the library below it 200,000 strings, which
blocked all streams for 30 to 60 ms.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Protocol

from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast, processing_utils
from transformers.utils import chat_template_utils

from ..base.errors import SetupError
from ..base.json_types import JsonObject
from ..tokenization.prompt_cache import PromptCache, PromptEncoder, PromptLimit
from .chat_template import RESERVED, compile_template, find_variables
from .rendering import ProcessTemplate


def bound_templates() -> None:
    """Make transformers render chat templates in processes of their own."""

    def open_template(chat_template: str) -> ProcessTemplate:
        return compile_template(chat_template)

    chat_template_utils._compile_jinja_template = open_template  # noqa: SLF001 - no hook
    processing_utils._get_template_variables = find_variables  # noqa: SLF001 - it asks Jinja's


class PromptTokenizer(Protocol):
    """The tokenizer that an engine loads for a model, of transformers or of its own."""

    chat_template: object
    apply_chat_template: Callable[..., Any]

    def convert_tokens_to_ids(self, token: str) -> int | None:
        """Return the id of a token by its text."""


def check_template(tokenizer: object) -> None:
    """Raise `SetupError` for a chat template that cannot be compiled."""
    template = getattr(tokenizer, "chat_template", None)
    for source in template.values() if isinstance(template, dict) else [template]:
        if isinstance(source, str):
            compile_template(source)


def check_has_template(tokenizer: object, find: Callable[[], object] = lambda: None) -> None:
    """Raise `SetupError` if transformers would render the prompts and there is no chat template.

    find: returns the template that the engine would use in place of the tokenizer's.
    """
    renders = getattr(type(tokenizer), "apply_chat_template", None)
    if renders is PreTrainedTokenizerBase.apply_chat_template:
        given = getattr(tokenizer, "chat_template", None)
        if not given and not find():
            raise SetupError(
                "the model has no chat template; name a Jinja file with --chat-template."
            )


class BoundedTokenizer:
    """A tokenizer that passes only the template's own variables, and rejects too long prompts.

    encoder: returns the tokenizer's own ids; None to ask the tokenizer.
    All other attributes are the tokenizer's own.
    """

    def __init__(
        self,
        tokenizer: PromptTokenizer,
        limit: PromptLimit,
        encoder: PromptEncoder | None = None,
    ) -> None:
        self._tokenizer = tokenizer
        self._limit = limit
        self._encode_whole = self._call if encoder is None else encoder.encode_whole
        self._encode = self._call if encoder is None else encoder.encode
        # The arguments of a tokenizer's own method.
        self._own_names = frozenset(
            inspect.signature(tokenizer.apply_chat_template).parameters.keys() - RESERVED
        )

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tokenizer, name)

    def apply_chat_template(
        self,
        conversation: list[JsonObject],
        *,
        tools: list[JsonObject] | None = None,
        add_generation_prompt: bool,
        tokenize: bool,
        **variables: object,
    ) -> object:
        """Return the prompt's token ids, as transformers does.

        variables: the request's; those that the template does not read are dropped.
        Raises `RequestError` for a text that is too long, and the template's own errors.
        """
        tokenizer = self._tokenizer
        known = {name: variables[name] for name in self._find_names(tools) & variables.keys()}
        arguments = {"tools": tools, "add_generation_prompt": add_generation_prompt, **known}
        if not isinstance(tokenizer, PreTrainedTokenizerBase):
            return tokenizer.apply_chat_template(conversation, tokenize=tokenize, **arguments)
        text = tokenizer.apply_chat_template(conversation, tokenize=False, **arguments)
        self._limit.check(text, lambda part: len(self._encode_whole(part)))
        return self._encode(text)

    def _call(self, text: str) -> list[int]:
        encoded: Any = self._tokenizer
        token_ids: list[int] = encoded(text, add_special_tokens=False)["input_ids"]
        return token_ids

    def _find_names(self, tools: list[JsonObject] | None) -> frozenset[str]:
        """Return the variables of the template, and the arguments of a tokenizer's own method."""
        tokenizer = self._tokenizer
        names = self._own_names
        if getattr(tokenizer, "chat_template", None) is not None and isinstance(
            tokenizer, PreTrainedTokenizerBase
        ):
            names |= find_variables(tokenizer.get_chat_template(tools=tools))
        return names


# Modules whose classes pass a text on unchanged. A class of the model's own may do anything.
KNOWN_MODULES = ("builtins", "transformers.", "vllm.tokenizers.hf")
NO_ENCODER = "the model's tokenizer encodes texts in a way of its own"
SAMPLE = " Hello,\n\n world\t'S 1234 \u2581x \ufb01 e\u0301 \u4e16\u754c \U0001f642  "


def make_encoder(tokenizer: object, cache: PromptCache | None) -> PromptEncoder | None:
    """Return an encoder with the token ids of `tokenizer(text, add_special_tokens=False)`.

    Returns None for a tokenizer that is not just a wrapper of a `tokenizers.Tokenizer`. Otherwise
    the tokenizer must not be changed any more.
    """
    if not isinstance(tokenizer, PreTrainedTokenizerFast) or tokenizer.split_special_tokens:
        return None
    if not all(layer.__module__.startswith(KNOWN_MODULES) for layer in type(tokenizer).__mro__):
        return None
    backend = tokenizer.backend_tokenizer
    # transformers does this for each text.
    backend.no_truncation()
    backend.no_padding()
    encoder = PromptEncoder(backend, cache)
    sample = SAMPLE.join(["", *tokenizer.all_special_tokens, ""])
    own = tokenizer(sample, add_special_tokens=False)["input_ids"]
    return encoder if encoder.encode_whole(sample) == own else None
