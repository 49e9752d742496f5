"""A tokenizer of the user's own, its results checked: what it does wrong becomes a typed error that names it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import msgspec

from ..parsers.errors import RequestError
from .errors import TokenizerFailedError, TokenizerResultError
from .protocol import Message, Tool

TOKEN_IDS = "list[int], each >= 0"
TokenId = Annotated[int, msgspec.Meta(ge=0)]


class CheckedTokenizer:
    """`encode`, `encode_batch` and `decode` of a tokenizer, and the prompts that it writes.

    Every other attribute is the tokenizer's own, so that this stands wherever a
    tokenizer can, `detokenizers` and `read_vocabulary` included.

    name: what errors call it.
    All methods raise `TokenizerFailedError` for what the tokenizer raises, and
    `TokenizerResultError` for what it returns against its contract.
    """

    def __init__(self, name: str, inner: Any = None) -> None:
        self._name = name
        self._inner = inner

    def get(self) -> Any:
        """Return the tokenizer itself."""
        return self._inner

    def encode(self, text: str) -> list[int]:
        """See `Tokenizer`."""
        return self._token_ids("encode", self._call("encode", text))

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """See `Tokenizer`."""
        results = self._call("encode_batch", list(texts))
        if not isinstance(results, list) or len(results) != len(texts):
            raise TokenizerResultError(
                self._name, "encode_batch", results, f"a list of {len(texts)} lists of ids"
            )
        return [self._token_ids("encode_batch", result) for result in results]

    def decode(self, token_ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        """See `Tokenizer`."""
        text = self._call("decode", token_ids, skip_special_tokens=skip_special_tokens)
        return self._text("decode", text)

    def prompt_token_ids(
        self,
        messages: list[Message],
        tools: list[Tool] | None = None,
        *,
        model: str = "",
        **template_kwargs: Any,
    ) -> list[int] | None:
        """Return the prompt of a conversation; None if the tokenizer brings no template.

        Then the caller renders the model's own template and calls `encode`.
        template_kwargs: those that the request gives.
        Raises `RequestError` for messages, or a template argument, that the tokenizer does not take.
        """
        inner = self.get()
        if (tokenize := getattr(inner, "tokenize", None)) is not None:
            prompt = self._prompt(
                tokenize, messages, {"model": model, "tools": tools}, template_kwargs
            )
            return self._token_ids("tokenize", prompt)
        if (template := getattr(inner, "apply_chat_template", None)) is not None:
            prompt = self._prompt(template, messages, {"tools": tools}, template_kwargs)
            return self.encode(self._text("apply_chat_template", prompt))
        return None

    def _prompt(
        self,
        method: Callable[..., Any],
        messages: list[Message],
        own: dict[str, Any],
        template_kwargs: dict[str, Any],
    ) -> Any:
        for name, value in template_kwargs.items():
            if not takes(method, name):
                raise RequestError(
                    f"chat_template_kwargs.{name}",
                    value,
                    f"what {self._name}.{method.__name__} takes, not this",
                )
        try:
            return method(messages, **own, **template_kwargs)
        except RequestError:
            raise
        except ValueError as error:
            raise RequestError(
                "messages", messages, f"what {self._name} takes ({error})"
            ) from error
        except Exception as error:
            raise TokenizerFailedError(self._name, method.__name__, messages, error) from error

    def _call(self, method: str, argument: object, **options: Any) -> Any:
        inner = self.get()
        try:
            return getattr(inner, method)(argument, **options)
        except Exception as error:
            raise TokenizerFailedError(self._name, method, argument, error) from error

    def _token_ids(self, method: str, result: Any) -> list[int]:
        # In one call of C, since prompts have 200,000 of them and other streams wait.
        try:
            if isinstance(result, list):
                return msgspec.convert(result, list[TokenId])
        except msgspec.ValidationError:
            pass
        raise TokenizerResultError(self._name, method, result, TOKEN_IDS)

    def _text(self, method: str, result: Any) -> str:
        if isinstance(result, str):
            return result
        raise TokenizerResultError(self._name, method, result, "a str")

    def __getattr__(self, name: str) -> Any:
        # Neither what pickle and copy ask of an object that they have not filled yet.
        if name.startswith("__") or name in {"_inner", "_name"}:
            raise AttributeError(name)
        return getattr(self.get(), name)


def takes(method: Callable[..., Any], keyword: str) -> bool:
    """Whether `method` can be called with the argument `keyword`."""
    parameters = inspect.signature(method).parameters.values()
    named = {inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY}
    return any(
        parameter.kind is inspect.Parameter.VAR_KEYWORD
        or (parameter.name == keyword and parameter.kind in named)
        for parameter in parameters
    )
