"""The seams in TensorRT-LLM and in Dynamo's worker for it."""

from __future__ import annotations

from ...base.seams import Seam

PACKAGES = ("ai-dynamo", "tensorrt-llm")

WORKER: tuple[Seam, ...] = ()

FRONTEND: tuple[Seam, ...] = ()
