"""The seams in vLLM and in Dynamo's vLLM worker and frontend: docs/decisions/0007-patch-points.md says why these."""

from __future__ import annotations

from ...base.seams import Seam

PACKAGES = (
    "ai-dynamo",
    "vllm",
)

WORKER: tuple[Seam, ...] = ()

FRONTEND: tuple[Seam, ...] = ()
