"""One module per family of models; each is a table. `docs/add-a-format.md` shows how to write one."""

from __future__ import annotations

from .hermes import HERMES
from .qwen3 import QWEN3, QWEN3_CODER

FORMATS = (
    HERMES,
    QWEN3,
    QWEN3_CODER,
)
