"""The seams in Dynamo that are alike for all engines."""

from __future__ import annotations

from ...base.seams import Seam

PACKAGES = ("ai-dynamo",)

WORKER: tuple[Seam, ...] = ()

FRONTEND: tuple[Seam, ...] = ()
