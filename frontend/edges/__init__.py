"""The forward edges: rendering and tokenization, one module for each tokenizer back end."""

from __future__ import annotations

import functools
import importlib

from ...tokenization.flags import Backend
from ..runtime.gc_control import importing
from .base import ChatModelBuilder

# The module and the class of each back end's edge.
BUILDERS: dict[Backend, tuple[str, str]] = {
    "huggingface": (".huggingface", "HuggingFaceModelBuilder"),
    "vllm": (".vllm", "VllmModelBuilder"),
    "sglang": (".sglang", "SglangModelBuilder"),
    "python": (".huggingface", "HuggingFaceModelBuilder"),
}


@functools.cache
def load_builder(backend: Backend) -> type[ChatModelBuilder]:
    """Return the class that builds models with `backend`; importing an engine takes seconds."""
    module, name = BUILDERS[backend]
    with importing():
        loaded = importlib.import_module(module, __package__)
    builder: type[ChatModelBuilder] = getattr(loaded, name)
    return builder
