"""Decodes JSON inside strings, which no parser of the request's body has checked."""

from __future__ import annotations

import json

from .json_types import is_deeper
from .limits import MAX_JSON_NESTING


def decode_json(text: str) -> object:
    """Decode JSON. Raises ValueError for other text and for deep nesting."""
    try:
        value = json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    # Counting brackets is much cheaper than visiting each value.
    if text.count("[") + text.count("{") > MAX_JSON_NESTING and is_deeper(value, MAX_JSON_NESTING):
        raise ValueError(f"it is nested more than {MAX_JSON_NESTING} levels deep")
    return value
