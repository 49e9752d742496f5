"""The back ends by name, each imported on first use, because some take seconds."""

from __future__ import annotations

import importlib

from ..base.engines import load_engine_module
from ..base.errors import SetupError
from .backend import Backend
from .contracts import BACKENDS

# The folder of each engine, and the class in its `offline.py`.
ENGINES = {
    "hf": ("transformers", "HfBackend"),
    "vllm": ("vllm", "VllmBackend"),
    "sglang": ("sglang", "SglangBackend"),
}
# The back end without a model.
REPLAY = ("replay", "backedge.testing.offline", "ReplayBackend")


def backend_class(name: str) -> type[Backend]:
    """Return the class of a back end, without importing torch or an engine.

    Raises `SetupError` for an engine whose folder is missing.
    """
    if name == REPLAY[0]:
        module, attribute = importlib.import_module(REPLAY[1]), REPLAY[2]
    else:
        folder, attribute = ENGINES[name]
        module = load_engine_module(folder, "offline")
    found: type[Backend] = getattr(module, attribute)
    return found


def able_backends(capability: str) -> list[str]:
    """Return the names of the back ends with this capability."""
    able = []
    for name in BACKENDS:
        if name not in (*ENGINES, REPLAY[0]):
            continue
        try:
            capabilities = backend_class(name).capabilities
        except SetupError:
            continue
        if capability in capabilities:
            able.append(name)
    return able
