"""The engines' own incremental detokenizers, for `--postprocess-detokenizer native`.

The shared part; an adapter's `native_detokenizers(tokenizer)` builds the factory.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Literal

from typing_extensions import override

from ..base.errors import SetupError
from ..tokenization.detokenizer import (
    Detokenizer,
    DetokenizerFactory,
    DetokenizerOptions,
    detokenizers,
)
from ..tokenization.tokenizer_selection import BACKEND_FLAG, TokenizerSelection

DetokenizerKind = Literal["table", "native"]
DETOKENIZER_FLAG = "--postprocess-detokenizer"
Step = Callable[[int], str]
"""Takes a token of one choice and returns the text that the engine would send for it."""


class NativeDetokenizer(Detokenizer):
    """The engine's detokenizer of one choice."""

    def __init__(self, step: Step) -> None:
        self._step = step

    @override
    def feed(self, token_id: int) -> str:
        return self._step(token_id)


class NativeDetokenizers(DetokenizerFactory):
    """Factory of an engine's detokenizers.

    start: returns the step of a new choice, after the tokens of a prompt.
    The bytes of single tokens, for logprobs, come from the tokenizer.
    """

    def __init__(
        self, tokenizer: object, start: Callable[[DetokenizerOptions, Sequence[int]], Step]
    ) -> None:
        self._start = start
        self._vocabulary = detokenizers(tokenizer)

    @override
    def __call__(self, options: DetokenizerOptions, prompt_token_ids: Sequence[int]) -> Detokenizer:
        return NativeDetokenizer(self._start(options, prompt_token_ids))

    @override
    def token_bytes(self, token_id: int) -> bytes:
        return self._vocabulary.token_bytes(token_id)

    @override
    def is_special(self, token_id: int) -> bool:
        return self._vocabulary.is_special(token_id)


def build_detokenizers(
    kind: DetokenizerKind, adapter: str, tokenizer: object
) -> DetokenizerFactory:
    """Return the detokenizers of this kind.

    adapter: module of the engine's adapter. Raises `SetupError` if the engine has no detokenizer.
    """
    if kind == "table":
        return detokenizers(tokenizer)
    make: Callable[[object], DetokenizerFactory] | None = getattr(
        importlib.import_module(adapter), "native_detokenizers", None
    )
    if make is None:
        raise SetupError(
            f"{DETOKENIZER_FLAG} native: only vLLM and SGLang have a detokenizer that can be used "
            "here; omit the flag."
        )
    return make(tokenizer)


def check_tokenizer(selection: TokenizerSelection, engine: str) -> None:
    """Raise `SetupError` if the engine's detokenizer would get another tokenizer."""
    if selection.backend not in (None, engine):
        raise SetupError(
            f"{DETOKENIZER_FLAG} native uses the engine's tokenizer, but {BACKEND_FLAG} is "
            f"{selection.backend}; omit one of the two flags."
        )
