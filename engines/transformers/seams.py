"""The seams in transformers: docs/decisions/0007-patch-points.md says why these."""

from __future__ import annotations

from ...base.seams import Seam

PACKAGES = ("transformers",)

WORKER: tuple[Seam, ...] = ()

FRONTEND: tuple[Seam, ...] = ()
