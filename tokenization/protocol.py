"""The interface of a user's own tokenizer, and a base class that needs only two methods.

Either `encode`, `encode_batch` and `decode` are required (`DynamoTokenizer`), or only `tokenize`
(`TokenizerProtocol`). All other features are optional, each with a protocol of its own; a class
has a feature if it has the method, as `isinstance` tells.
The class, or a function in its place, is called with the model's path, a str, as its only
argument.
"""

from __future__ import annotations

import abc
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import ClassVar, NoReturn, Protocol, Self, TypeVar, runtime_checkable

from typing_extensions import override

from ..base.json_types import JsonObject
from .detokenizer import DetokenizerFactory, DetokenizerOptions, detokenizers

T = TypeVar("T")


@runtime_checkable
class DynamoTokenizer(Protocol):
    """Converts text to token ids and back.

    Several threads call it, one at a time. They call it concurrently if the class has an
    attribute `thread_safe = True`.
    """

    def encode(self, text: str) -> list[int]:
        """Return the token ids of `text`, each >= 0, without additions.

        text: any length, possibly empty. It may contain special tokens, as chat templates
            write them. Do not add BOS or EOS: the template writes them.
        """

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the results of `encode` for each of `texts`, in order."""

    def decode(self, token_ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        """Return the text of `token_ids`, shape (n,), n >= 0.

        Decoding the ids of a text gives that text, with its special tokens unless they
        are skipped. Any slice of the ids must decode too, with U+FFFD for an incomplete
        character, because streams are decoded a few tokens at a time.
        """


@runtime_checkable
class TemplateTokenizer(DynamoTokenizer, Protocol):
    """Has its own chat template, which produces text."""

    def apply_chat_template(
        self,
        messages: list[JsonObject],
        tools: list[JsonObject] | None = None,
        **kwargs: object,
    ) -> str:
        """Return the prompt's text, up to where the answer begins; it is then encoded.

        messages, tools: in OpenAI's form; do not change them. kwargs: the request's
            chat_template_kwargs and similar options.
        Raises ValueError for messages that the model does not support: HTTP 400.
        """


@runtime_checkable
class TokenizerProtocol(Protocol):
    """Applies its template and encodes in one step, as mistral-common does.

    This suffices for a frontend; the model's own tokenizer then decodes. In a
    `DynamoTokenizer`, `tokenize` takes precedence over `apply_chat_template`.
    A subclass without `tokenize` cannot be instantiated.
    """

    @abc.abstractmethod
    def tokenize(
        self, messages: list[JsonObject], model: str, tools: list[JsonObject] | None = None
    ) -> list[int]:
        """Return the prompt's token ids.

        model: the name in the request. All other arguments are as for `TemplateTokenizer`.
        """


@runtime_checkable
class StreamingTokenizer(DynamoTokenizer, Protocol):
    """Also converts a stream of texts to tokens, for training code."""

    special_toks: Sequence[str]

    def __call__(self, texts: Iterable[str]) -> Iterator[list[str]]:
        """Yield the tokens of each of `texts`, in order.

        Lazily and in one pass: the n-th text is taken only when the n-th list is requested.
        Calls do not affect each other.
        """


class BaseTokenizer(StreamingTokenizer):
    """Implements all methods that can be derived from `encode` and `decode`.

    If a subclass lacks one of these two, calling it raises NotImplementedError.

    special_toks: the tokens, as text, that `skip_special_tokens` hides; set it in the
        class or its constructor.
    An instance is pickled as its constructor's arguments and reconstructed from them, so its
    other attributes (locks, handles, a vocabulary of many MB) need not be picklable. Changes
    after construction are lost unless you override `__reduce__`.
    """

    special_toks: Sequence[str] = ()
    thread_safe: ClassVar[bool] = False
    _arguments: tuple[tuple[object, ...], dict[str, object]]

    def __new__(cls, *args: object, **kwargs: object) -> Self:
        """Keep the arguments for `pickle` and `repr`."""
        # Not in __init__, so that a subclass need not call super().__init__().
        instance = super().__new__(cls)
        instance._arguments = (args, kwargs)
        return instance

    @override
    def encode(self, text: str) -> list[int]:
        self._raise_missing("encode")

    @override
    def decode(self, token_ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        self._raise_missing("decode")

    def _raise_missing(self, method: str) -> NoReturn:
        raise NotImplementedError(
            f"{type(self).__name__} has no {method}; every tokenizer must implement it"
        )

    @override
    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        return [self.encode(text) for text in texts]

    @override
    def __call__(self, texts: Iterable[str]) -> Iterator[list[str]]:
        # The tokens of a text concatenate to the result of `decode`. Ids that form one character
        # together are one token.
        for text in texts:
            yield self._tokens(text)

    @functools.cached_property
    def all_special_ids(self) -> list[int]:
        """The ids of those `special_toks` that `encode` maps to a single id."""
        return [
            token_ids[0]
            for token_ids in self.encode_batch(list(self.special_toks))
            if len(token_ids) == 1
        ]

    def _tokens(self, text: str) -> list[str]:
        token_ids = self.encode(text)
        feed = self._detokenizers(DetokenizerOptions(skip_special_tokens=False), ()).feed
        tokens = [token for token_id in token_ids if (token := feed(token_id))]
        # A detokenizer holds back a final U+FFFD, which may be an incomplete character.
        rest = self.decode(token_ids, skip_special_tokens=False)[sum(map(len, tokens)) :]
        return [*tokens, rest] if rest else tokens

    @functools.cached_property
    def _detokenizers(self) -> DetokenizerFactory:
        return detokenizers(self)

    @override
    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return _construct, (type(self), *self._arguments)

    @override
    def __repr__(self) -> str:
        args, kwargs = self._arguments
        shown = [*map(repr, args), *(f"{name}={value!r}" for name, value in kwargs.items())]
        return f"{type(self).__name__}({', '.join(shown)})"


def find_missing(tokenizer: object) -> list[str]:
    """Return the methods of a `DynamoTokenizer` that `tokenizer` lacks.

    A method that only raises, as in `BaseTokenizer`, counts as missing.
    """
    return [
        name
        for name in ("encode", "encode_batch", "decode")
        if not callable(getattr(tokenizer, name, None))
        or getattr(type(tokenizer), name, None) in (BaseTokenizer.encode, BaseTokenizer.decode)
    ]


def _construct(
    tokenizer_class: Callable[..., T], args: tuple[object, ...], kwargs: dict[str, object]
) -> T:
    return tokenizer_class(*args, **kwargs)
