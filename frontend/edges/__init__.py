"""Who renders and tokenizes: one forward edge per tokenizer back end."""

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
        builder: type[ChatModelBuilder] = getattr(
            importlib.import_module(module, __package__), name
        )
    return builder
