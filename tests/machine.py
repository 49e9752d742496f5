"""Skips tests where a part of the machine is missing; `tools.machine` has the parts."""

from __future__ import annotations

import pytest

from tools.machine import explain_missing, find


def needs(*names: str) -> pytest.MarkDecorator:
    """Return the mark of tests that need parts of the machine."""
    missing = explain_missing(names)
    return pytest.mark.skipif(bool(missing), reason=f"not on this machine: {missing}")


def require(name: str) -> str:
    """Return where a part is; skip the test without it."""
    if (path := find(name)) is None:
        pytest.skip(f"not on this machine: {explain_missing([name])}")
    return path
