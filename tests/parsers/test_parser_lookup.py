"""Parsers by name: formats of the catalog and of plugins, linear or native."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from collections.abc import Iterator
from typing import Any

import pytest
from backedge.base.errors import SetupError, UnknownParserError
from backedge.parsers import join, stream_parser
from backedge.parsers.base import ParserNames
from backedge.parsers.events import Content, ToolCallArguments, ToolCallStarted
from backedge.parsers.format import Format, Jump, State
from backedge.parsers.formats.catalog import FORMATS
from backedge.parsers.linear_parsers import Vocabulary
from backedge.parsers.parser_lookup import (
    ENTRY_POINTS,
    index_by_name,
    known_formats,
    linear_parsers,
    uses_native,
)

OURS = Format(
    "ours",
    {State.CONTENT: {"<<": State.JSON_CALLS}, State.JSON_CALLS: {">>": Jump.RETURN}},
    source="a package of one's own",
)
TOOLS = [{"type": "function", "function": {"name": "f"}}]


class EntryPoint:
    def load(self) -> Format:
        return OURS


@pytest.fixture
def plugin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A package that brings a format by entry point."""

    def entry_points(group: str) -> list[Any]:
        return [EntryPoint()] if group == ENTRY_POINTS else []

    monkeypatch.setattr(importlib.metadata, "entry_points", entry_points)
    known_formats.cache_clear()
    yield
    known_formats.cache_clear()


def test_a_format_from_another_package(plugin: None) -> None:
    parser = stream_parser(tool_call_parser="ours", tools=TOOLS, kind="linear")
    events = parser.feed('Hi << {"name": "f", "arguments": {}} >>') + parser.finish()
    assert join(events) == [Content("Hi "), ToolCallStarted(0, "f"), ToolCallArguments(0, "{}")]


def test_a_name_that_is_there_twice() -> None:
    with pytest.raises(
        SetupError, match="two formats are named 'ours'; the second is of a package of one's own"
    ):
        index_by_name([OURS, OURS])


@pytest.mark.parametrize(
    ("kind", "tools", "reasoning", "native"),
    [
        ("auto", "hermes", "qwen3", False),
        ("auto", None, None, False),
        ("auto", "hermes", "of_an_engine", True),
        ("auto", "of_an_engine", None, True),
        ("native", "hermes", "qwen3", True),
        ("linear", "hermes", "qwen3", False),
    ],
)
def test_the_choice(kind: Any, tools: str | None, reasoning: str | None, native: bool) -> None:
    assert uses_native(kind, ParserNames(tools, reasoning)) is native


@pytest.mark.parametrize(
    ("tools", "reasoning", "message"),
    [
        ("nope", None, "--tool-call-parser 'nope' is not known; set it to one of: .*hermes"),
        (None, "hermes", "--reasoning-parser 'hermes' is not known; set it to one of: .*qwen3"),
    ],
)
def test_linear_insists(tools: str | None, reasoning: str | None, message: str) -> None:
    with pytest.raises(UnknownParserError, match=message):
        linear_parsers(ParserNames(tools, reasoning), Vocabulary())


def test_every_format_says_where_it_is_from() -> None:
    assert all(format_.source for format_ in FORMATS)
    assert all(format_.parses_tools or format_.parses_reasoning for format_ in FORMATS)
