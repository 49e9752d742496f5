"""Tokenizers of other back ends than a worker's own engine, if its flags name one.

What encodes in the frontend decodes in the worker, too.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from ..base.engines import load_engine_module
from ..templates.model_files import load_tokenizer_json
from ..tokenization.flags import Backend, TokenizerSelection
from ..tokenization.selection import check_installed


class OtherTokenizer(NamedTuple):
    """A model's tokenizer as another back end reads it; JSON values. path: a folder or a file."""

    backend: Backend
    path: str
    trust_remote_code: bool


def select_other(
    selection: TokenizerSelection, engine: str, path: str, *, trust_remote_code: bool
) -> OtherTokenizer | None:
    """Return what the flags select in place of the tokenizer of `engine`; None for that one.

    A class of the user's ("python") is loaded elsewhere. "huggingface" reads tokenizer.json; of a
    model without it the engine decodes.
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
    """Return the tokenizer that the flags select, or what `own` returns, which reads the engine's.

    other: perhaps as a list, decoded from JSON. Raises what the back end raises.
    """
    if other is None:
        return own()
    backend, path, trust_remote_code = other
    if backend == "huggingface":
        return load_tokenizer_json(path)
    adapter = load_engine_module(backend, "worker")
    tokenizer: object = adapter.read_tokenizer(path, trust_remote_code=trust_remote_code)
    return tokenizer
