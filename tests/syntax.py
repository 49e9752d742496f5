"""The syntax trees of source files, for tests that read the code: each is parsed once."""

from __future__ import annotations

import ast
import functools
from pathlib import Path


@functools.cache
def parse(path: Path) -> ast.Module:
    """Return the tree of a file; it is shared, so do not change it."""
    return ast.parse(path.read_text(encoding="utf-8"))
