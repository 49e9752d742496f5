"""The back ends, by name. Each is imported when it is asked for: some take seconds."""

from __future__ import annotations

import importlib

from ..contracts import BACKENDS
from .base import Backend

CLASSES = {
    "hf": "HfBackend",
    "vllm": "VllmBackend",
    "sglang": "SglangBackend",
    "replay": "ReplayBackend",
}


def backend_class(name: str) -> type[Backend]:
    """Return the class of a back end. Importing it loads neither torch nor an engine."""
    found: type[Backend] = getattr(importlib.import_module(f"{__package__}.{name}"), CLASSES[name])
    return found


def able_backends(capability: str) -> list[str]:
    """Return the names of the back ends with this capability."""
    return [
        name
        for name in BACKENDS
        if name in CLASSES and capability in backend_class(name).capabilities
    ]
