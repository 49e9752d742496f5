"""Whose tokenizer and template a model's requests go through."""

from __future__ import annotations

import functools
import importlib
import importlib.util
from typing import Any

from ..parsers.errors import SetupError
from ..postprocess.messages import Capability
from .garbage import importing
from .tokenizers.choice import BACKEND_FLAG, BACKENDS, Backend, TokenizerChoice

# Of each back end: the module of its edge here, the class in it, and what has to be installed.
EDGES: dict[Backend, tuple[str, str, str | None]] = {
    "huggingface": (".light", "LightEdge", None),
    "vllm": (".vllm", "VllmEdge", "vllm"),
    "sglang": (".sglang", "SglangEdge", "sglang"),
    "python": (".light", "LightEdge", None),
}


def is_installed(backend: Backend) -> bool:
    """Whether this process can use `backend`."""
    package = EDGES[backend][2]
    return package is None or importlib.util.find_spec(package) is not None


def check_installed(backend: Backend) -> None:
    """Raise `SetupError` unless this process can use `backend`."""
    if not is_installed(backend):
        raise SetupError(
            f"{BACKEND_FLAG} {backend}: {backend} is not installed here; install it, or choose another by that "
            "flag of the frontend."
        )


def choose(flags: TokenizerChoice, capability: Capability | None) -> tuple[Backend, TokenizerChoice]:
    """Return whose tokenizer a model gets: the frontend's flags' choice, its worker's, else its engine's if it is here.

    capability: of the model's workers; None if they are plain ones, which do not say
        what engine they have.
    Raises `SetupError` for a choice that is not installed here.
    """
    chosen = flags if flags.backend is not None else _of_worker(capability)
    if chosen.backend is not None:
        check_installed(chosen.backend)
        return chosen.backend, chosen
    engines = ["vllm", "sglang"] if capability is None else [capability.engine]
    here = (backend for backend in BACKENDS if backend in engines and is_installed(backend))
    return next(here, "huggingface"), chosen


def _of_worker(capability: Capability | None) -> TokenizerChoice:
    if capability is None or capability.tokenizer_backend not in (None, *BACKENDS):
        return TokenizerChoice()  # a newer worker's, which we do not know
    return TokenizerChoice(capability.tokenizer_backend, capability.tokenizer_module, capability.tokenizer_class)


@functools.cache
def load_edge(backend: Backend) -> Any:
    """Return the class of the edge, a `ForwardEdge`; importing an engine takes seconds."""
    module, name, _ = EDGES[backend]
    with importing():
        return getattr(importlib.import_module(module, __package__), name)
