"""All families, by the name of their format."""

from __future__ import annotations

import importlib
import pkgutil

from tests.parsers.families.family import Family

FAMILIES: dict[str, Family] = {}
for module in pkgutil.iter_modules(__path__):
    loaded = importlib.import_module(f"{__name__}.{module.name}")
    for family in getattr(loaded, "FAMILIES", [loaded.FAMILY] if hasattr(loaded, "FAMILY") else []):
        FAMILIES[family.name] = family
