"""JSON inside strings, which no parser of a request's body has looked into."""

from __future__ import annotations

import json

from .json_types import is_deeper

# As deep as Dynamo's HTTP layer lets the request itself be nested.
MAX_NESTING = 128


def decode_json(text: str) -> object:
    """Return what JSON text means. Raises ValueError for other text and for deep nesting."""
    try:
        value = json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    # Brackets are counted at a fraction of the cost of looking at each value.
    if text.count("[") + text.count("{") > MAX_NESTING and is_deeper(value, MAX_NESTING):
        raise ValueError(f"it is nested more than {MAX_NESTING} levels deep")
    return value
