"""Marks the campaign: hostile output, rogue peers, faults of the pool.

`make test` runs a short form; `make test-hostile` all, with more random examples.
"""

from __future__ import annotations

from pathlib import Path

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker("hostile")
