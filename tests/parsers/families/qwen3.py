"""Qwen 3's reasoning: `<think>...</think>`, opened or closed by the prompt or by the model."""

from __future__ import annotations

from tests.parsers.families.family import Family, Tags
from tests.parsers.families.think import UNOPENED

FAMILY = Family(
    reasoning_parser="qwen3", tags=Tags(), markers=("<think>", "</think>"), cases=UNOPENED
)
