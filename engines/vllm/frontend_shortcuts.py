"""What the `vllm` edge spares each request of the work of vLLM's and Dynamo's forward edge.

docs/upstream.md has the figures.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any

import msgspec
from dynamo.frontend import prepost
from vllm.tokenizers.hf import ThreadSafeHFTokenizerMixin

from ...base.json_types import JsonObject

# Fields of vLLM's request whose defaults pydantic would make by a factory, and look at the
# factory's signature for each request: a third of a millisecond. Nobody reads this id.
FACTORY_FIELDS: JsonObject = {"bad_words": [], "request_id": ""}
# Reasoning parsers that the requests of a model share, and the size of the arguments of each.
MAX_SHARED = 16
MAX_SHARED_BYTES = 1024
# Whether this context's request is prepared without waiting for anything.
AT_ONCE = ContextVar("AT_ONCE", default=False)


class SharedParsers:
    """Makes the reasoning parsers that Dynamo asks about requests; it would make two for each.

    What it asks changes none of vLLM's: to adjust the request, and whether the prompt ends
    reasoning. So requests with the same arguments of the chat template share one.
    """

    def __init__(self, parser_class: Callable[..., object]) -> None:
        self._parser_class = parser_class
        self._made: dict[bytes, object] = {}

    def __call__(
        self, tokenizer: object, *, chat_template_kwargs: JsonObject, **options: object
    ) -> object:
        """Return a parser; `options` are the same for all requests of a model."""
        key = msgspec.json.encode(chat_template_kwargs)
        parser = self._made.get(key)
        if parser is None:
            parser = self._parser_class(
                tokenizer, chat_template_kwargs=chat_template_kwargs, **options
            )
            if len(key) <= MAX_SHARED_BYTES:
                self._made[key] = parser
                for oldest in list(self._made)[:-MAX_SHARED]:
                    self._made.pop(oldest, None)
        return parser


def unless_at_once(
    function: Callable[..., Any], in_executor: Callable[..., Awaitable[Any]]
) -> Callable[..., Awaitable[Any]]:
    """Return what calls `function` itself for a request that is prepared `AT_ONCE`."""

    async def call(*args: object, **kwargs: object) -> Any:
        if AT_ONCE.get():
            return function(*args, **kwargs)
        return await in_executor(*args, **kwargs)

    return call


def tokenize_in_place() -> None:
    """Have Dynamo tokenize requests that are prepared `AT_ONCE` where they are, in this process."""
    original = prepost._get_async_tokenizer  # noqa: SLF001 - Dynamo has no hook
    if original.__module__ == prepost.__name__:  # else it is ours already

        def get_async_tokenizer(tokenizer: Any) -> Callable[..., Awaitable[Any]]:
            return unless_at_once(tokenizer, original(tokenizer))

        prepost._get_async_tokenizer = get_async_tokenizer  # noqa: SLF001 - as above


def without_pool(tokenizer: Any) -> Any:
    """Return a tokenizer that renders as `tokenizer`, without borrowing one of vLLM's copies.

    Encoding needs a copy for each thread. While all are borrowed vLLM makes another one, which
    takes the interpreter's lock for as long as a vocabulary takes to load.
    """
    plain = next(
        base for base in type(tokenizer).__mro__ if not issubclass(base, ThreadSafeHFTokenizerMixin)
    )
    if plain is type(tokenizer):
        return tokenizer
    shared: Any = object.__new__(plain)
    shared.__dict__ = tokenizer.__dict__
    return shared
