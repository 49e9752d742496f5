"""Loads an engine's modules by name, so that no other code depends on an engine."""

from __future__ import annotations

import functools
import importlib
from types import ModuleType

from .errors import SetupError
from .seams import check_seams


def has_engine(engine: str) -> bool:
    """Whether this Backedge has a folder for `engine`; without one it counts as not installed."""
    try:
        importlib.import_module(f"backedge.engines.{engine}")
    except ModuleNotFoundError:
        return False
    return True


def load_engine_module(engine: str, module: str) -> ModuleType:
    """Return `engines/<engine>/<module>.py`; importing it may take seconds.

    Raises `SetupError` if the module does not exist, and what its own imports raise.
    """
    package = f"backedge.engines.{engine}"
    try:
        return importlib.import_module(f"{package}.{module}")
    except ModuleNotFoundError as error:
        if error.name not in (package, f"{package}.{module}"):
            raise  # the engine itself is not installed
        raise SetupError(f"this Backedge has no {module} for the engine {engine!r}.") from error


@functools.cache
def load_native_parsers(engine: str) -> ModuleType:
    """Return the module with an engine's own parsers, after a check of the seams that they need.

    Raises `SetupError` as `check_seams`, and as `load_engine_module`.
    """
    table = load_engine_module(engine, "seams")
    check_seams(table.PARSERS, table.PACKAGES)
    return load_engine_module(engine, "parsers")
