"""Names for decoded JSON, whose values have no better type."""

from __future__ import annotations

from typing import Any, TypeAlias

JsonObject: TypeAlias = dict[str, Any]
"""A JSON object as `json` and msgspec decode it: an OpenAI message, a tool, a JSON schema."""
