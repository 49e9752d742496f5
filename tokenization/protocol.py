"""What a tokenizer of the user's own offers, and a base class that needs two methods only.

Required are `encode`, `encode_batch` and `decode` (`Tokenizer`). Everything else is
optional, each with its own protocol; a class offers it by having the method.
The class is constructed with the model's path, a str, as its only argument.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol, Self

from .detokenizer import DetokenizerFactory, DetokenizerOptions, detokenizers

Message = dict[str, Any]
Tool = dict[str, Any]


class Tokenizer(Protocol):
    """Text to token ids and back. Called from several threads at once."""

    def encode(self, text: str) -> list[int]:
        """Return the token ids of `text`, each >= 0, and add none.

        text: any length, also empty; may hold special tokens written out, as chat
            templates write them. No BOS or EOS of its own: the template writes those.
        """
        ...

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Return what `encode` returns for each of `texts`, in their order."""
        ...

    def decode(self, token_ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        """Return the text of `token_ids`, shape (n,), n >= 0.

        Of encoded text it is that text, special tokens included if they are not
        skipped. Any slice of it must decode too, U+FFFD standing for half a character:
        a stream is decoded a few tokens at a time.
        """
        ...


class TemplateTokenizer(Tokenizer, Protocol):
    """Brings its own chat template, as text."""

    def apply_chat_template(
        self, messages: list[Message], tools: list[Tool] | None = None, **kwargs: Any
    ) -> str:
        """Return the prompt's text, up to where the assistant begins; it is then encoded.

        messages, tools: in OpenAI's form, not to be changed. kwargs: the request's
            chat_template_kwargs and its like.
        Raises ValueError for messages that the model does not take: HTTP 400.
        """
        ...


class PromptTokenizer(Tokenizer, Protocol):
    """Does template and encoding in one, as mistral-common does. ScheduledChunk before `apply_chat_template`."""

    def tokenize(self, messages: list[Message], model: str, tools: list[Tool] | None) -> list[int]:
        """Return the prompt's token ids.

        model: the name that the request gives. The rest, also further keyword
        arguments, as for `TemplateTokenizer`.
        """
        ...


class StreamingTokenizer(Tokenizer, Protocol):
    """Also turns a stream of texts into tokens, for training code."""

    special_toks: Sequence[str]

    def __call__(self, texts: Iterable[str]) -> Iterator[list[str]]:
        """Yield the tokens of each of `texts`, in their order.

        Lazy and in one pass: the n-th text is taken when the n-th list is asked for,
        and never before. Calls do not know of each other.
        """
        ...


class BaseTokenizer(ABC):
    """All that can be had of `encode` and `decode`: see `Tokenizer` and `StreamingTokenizer`.

    special_toks: the tokens, as text, that `skip_special_tokens` leaves out; set it in
        the class or its constructor.
    An instance is pickled as its constructor's arguments and made anew from them, so
    whatever else it holds (locks, handles, a vocabulary of many MB) neither hinders that
    nor travels. What is changed after construction is not kept: then override `__reduce__`.
    """

    special_toks: Sequence[str] = ()
    _arguments: tuple[tuple[Any, ...], dict[str, Any]]

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Keep the arguments, for `pickle` and `repr`."""
        # Here and not in __init__, so that a subclass need not call super().__init__().
        made = super().__new__(cls)
        made._arguments = (args, kwargs)
        return made

    @abstractmethod
    def encode(self, text: str) -> list[int]:
        """See `Tokenizer`."""

    @abstractmethod
    def decode(self, token_ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        """See `Tokenizer`."""

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """See `Tokenizer`."""
        return [self.encode(text) for text in texts]

    def __call__(self, texts: Iterable[str]) -> Iterator[list[str]]:
        """See `StreamingTokenizer`; the tokens of a text add up to what `decode` gives of it.

        Ids that spell one character together are one token.
        """
        for text in texts:
            yield self._tokens(text)

    @functools.cached_property
    def all_special_ids(self) -> list[int]:
        """The ids of those `special_toks` that `encode` gives as a single one."""
        return [
            token_ids[0]
            for token_ids in self.encode_batch(list(self.special_toks))
            if len(token_ids) == 1
        ]

    def _tokens(self, text: str) -> list[str]:
        token_ids = self.encode(text)
        feed = self._detokenizers(DetokenizerOptions(skip_special_tokens=False), ()).feed
        tokens = [token for token_id in token_ids if (token := feed(token_id))]
        # A detokenizer holds back a U+FFFD at the end, of which it cannot know that it is one.
        rest = self.decode(token_ids, skip_special_tokens=False)[sum(map(len, tokens)) :]
        return [*tokens, rest] if rest else tokens

    @functools.cached_property
    def _detokenizers(self) -> DetokenizerFactory:
        return detokenizers(self)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return _make, (type(self), *self._arguments)

    def __repr__(self) -> str:
        args, kwargs = self._arguments
        shown = [*map(repr, args), *(f"{name}={value!r}" for name, value in kwargs.items())]
        return f"{type(self).__name__}({', '.join(shown)})"


def _make(made: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return made(*args, **kwargs)
