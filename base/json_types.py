"""Decoded JSON: a name for objects, and a check of nesting."""

from __future__ import annotations

from typing import Any, TypeAlias

JsonObject: TypeAlias = dict[str, Any]
"""A JSON object as `json` and msgspec decode it: an OpenAI message, a tool, a JSON schema."""


def is_deeper(value: object, levels: int) -> bool:
    """Whether JSON is nested more than `levels` deep."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(levels):
        level = [
            part
            for parent in level
            for part in (parent.values() if isinstance(parent, dict) else parent)
            if isinstance(part, dict | list)
        ]
        if not level:
            return False
    return bool(level)
