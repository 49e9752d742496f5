"""Selects the tokenizer and the detokenizers with which a worker decodes.

The worker decodes with the tokenizer with which the frontend encodes: the engine's, or another one
that the flags name. For `--postprocess-detokenizer native`, an adapter's
`native_detokenizers(tokenizer)` builds the factory of the engine's own detokenizers.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from typing_extensions import override

from ..base.errors import SetupError
from ..tokenization.detokenizer import (
    Detokenizer,
    DetokenizerFactory,
    DetokenizerOptions,
    detokenizers,
)
from ..tokenization.tokenizer_selection import (
    BACKEND_FLAG,
    Backend,
    TokenizerSelection,
    check_installed,
    create_tokenizer_from_config,
)

DetokenizerKind = Literal["table", "native"]
DETOKENIZER_FLAG = "--postprocess-detokenizer"
DecodeToken = Callable[[int], str]
"""Takes a token of one choice and returns the text that the engine would send for it."""


class NativeDetokenizer(Detokenizer):
    """The engine's detokenizer of one choice."""

    def __init__(self, step: DecodeToken) -> None:
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
        self, tokenizer: object, start: Callable[[DetokenizerOptions, Sequence[int]], DecodeToken]
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


class OtherTokenizer(NamedTuple):
    """A model's tokenizer for another back end; JSON values. path: a folder or a file."""

    backend: Backend
    path: str
    trust_remote_code: bool


def select_other(
    selection: TokenizerSelection, engine: str, path: str, *, trust_remote_code: bool
) -> OtherTokenizer | None:
    """Return the tokenizer that the flags select; None for that of `engine`.

    A user's class ("python") is loaded elsewhere. "huggingface" reads tokenizer.json; for a model
    without that file, the engine decodes.
    Raises `SetupError` for a back end that is not installed here.
    """
    backend = selection.backend
    if backend is None or backend in ("python", engine):
        return None
    if backend == "huggingface" and not (Path(path) / "tokenizer.json").is_file():
        return None
    check_installed(backend)
    return OtherTokenizer(backend, path, trust_remote_code)


def choose_tokenizer(other: OtherTokenizer | None, own: Callable[[], object]) -> object:
    """Return the tokenizer that the flags select, or the engine's, which `own` loads.

    other: a list if decoded from JSON. Raises what the back end raises.
    """
    if other is None:
        return own()
    backend, path, trusts = other
    return create_tokenizer_from_config(TokenizerSelection(backend), path, trust_remote_code=trusts)
