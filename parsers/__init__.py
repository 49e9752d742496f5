"""Parsers: model output to events (reasoning, content, tool calls). No I/O, clock or asyncio."""

from __future__ import annotations

from .api import stream_parser
from .events import (
    Content,
    Event,
    Malformation,
    Reasoning,
    ToolCallArguments,
    ToolCallCut,
    ToolCallMalformed,
    ToolCallStarted,
    join,
)
from .linear_parsers import Vocabulary

__all__ = [
    "Content",
    "Event",
    "Malformation",
    "Reasoning",
    "ToolCallArguments",
    "ToolCallCut",
    "ToolCallMalformed",
    "ToolCallStarted",
    "Vocabulary",
    "join",
    "stream_parser",
]
