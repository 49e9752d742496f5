"""Decoded JSON: a name for objects, a check of nesting, and JSON in strings."""

from __future__ import annotations

import json
from typing import Any, TypeAlias

from .limits import MAX_JSON_NESTING

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


def decode_json(text: str) -> object:
    """Decode JSON in a string, which no parser of the request's body has checked.

    Raises ValueError for other text and for deep nesting.
    """
    try:
        value = json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    # Counting brackets is much cheaper than visiting each value.
    if text.count("[") + text.count("{") > MAX_JSON_NESTING and is_deeper(value, MAX_JSON_NESTING):
        raise ValueError(f"it is nested more than {MAX_JSON_NESTING} levels deep")
    return value
