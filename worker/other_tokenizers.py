"""Selects a tokenizer other than the engine's own if the worker's flags name one.

The worker decodes with the tokenizer with which the frontend encodes.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from ..base.engines import load_engine_module
from ..tokenization.model_files import load_tokenizer_json
from ..tokenization.tokenizer_selection import Backend, TokenizerSelection, check_installed


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
    backend, path, trust_remote_code = other
    if backend == "huggingface":
        return load_tokenizer_json(path)
    adapter = load_engine_module(backend, "worker")
    tokenizer: object = adapter.read_tokenizer(path, trust_remote_code=trust_remote_code)
    return tokenizer
