"""Selects a model's tokenizer by the frontend's flags, its worker's, or its engine."""

from __future__ import annotations

import importlib.util

from ..base.engines import has_engine
from ..base.errors import SetupError
from .flags import BACKEND_FLAG, BACKENDS, Backend, TokenizerSelection


def is_installed(backend: Backend) -> bool:
    """Whether this process can use `backend`: "vllm" and "sglang" need that engine's package."""
    if backend not in ("vllm", "sglang"):
        return True
    return has_engine(backend) and importlib.util.find_spec(backend) is not None


def check_installed(backend: Backend) -> None:
    """Raise `SetupError` unless this process can use `backend`."""
    if not is_installed(backend):
        raise SetupError(
            f"{BACKEND_FLAG} {backend}: {backend} is not installed here; install it, or choose "
            "another back end with that flag of the frontend."
        )


def select_tokenizer(
    flags: TokenizerSelection, worker: TokenizerSelection, engine: str | None
) -> tuple[Backend, TokenizerSelection]:
    """Return the back end for a model, and the flags that selected it.

    flags: the frontend's. worker: advertised by the model's workers.
    engine: of these workers; None for workers without the plugin.
    Without flags, the engine's back end if it is installed here, else "huggingface".
    Raises `SetupError` for a back end that is not installed here.
    """
    selected = flags if flags.backend is not None else worker
    if selected.backend is not None:
        check_installed(selected.backend)
        return selected.backend, selected
    engines = ["vllm", "sglang"] if engine is None else [engine]
    installed = (name for name in BACKENDS if name in engines and is_installed(name))
    return next(installed, "huggingface"), selected
