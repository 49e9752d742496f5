"""The seams in transformers."""

from __future__ import annotations

from ...base.seams import Seam

PACKAGES = ("transformers",)

WORKER: tuple[Seam, ...] = ()

FRONTEND: tuple[Seam, ...] = ()
