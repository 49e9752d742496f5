"""The seams in SGLang and in Dynamo's SGLang worker and frontend."""

from __future__ import annotations

from ...base.seams import Seam

PACKAGES = ("ai-dynamo", "sglang")

WORKER: tuple[Seam, ...] = ()

FRONTEND: tuple[Seam, ...] = ()
