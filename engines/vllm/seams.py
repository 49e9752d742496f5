"""The seams in vLLM and in Dynamo's vLLM worker and frontend."""

from __future__ import annotations

from ...base.seams import Seam

PACKAGES = ("ai-dynamo", "vllm")

WORKER: tuple[Seam, ...] = ()

FRONTEND: tuple[Seam, ...] = ()
