"""Parsers by name: formats of the catalog and of plugins, linear or native."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from collections.abc import Callable, Iterator
from types import SimpleNamespace
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
    load_formats,
    reasoning_format,
    tool_format,
    uses_native,
)

OURS = Format(
    "ours",
    {State.CONTENT: {"<<": State.JSON_CALLS}, State.JSON_CALLS: {">>": Jump.RETURN}},
    source="a package of one's own",
)
TOOLS = [{"type": "function", "function": {"name": "f"}}]


def refuse() -> Format:
    return Format("broken", {State.CONTENT: {"<": State.NAME}}, source="a package")


def provide(
    monkeypatch: pytest.MonkeyPatch, formats: dict[str, Callable[[], object]]
) -> Iterator[None]:
    """Packages that have formats as entry points. formats: what loading each does, by name."""
    points = [
        SimpleNamespace(name=name, value=f"p:{name}", load=load, dist=SimpleNamespace(name="p"))
        for name, load in formats.items()
    ]
    monkeypatch.setattr(
        importlib.metadata, "entry_points", lambda group: points if group == ENTRY_POINTS else []
    )
    load_formats.cache_clear()
    yield
    load_formats.cache_clear()


@pytest.fixture
def plugin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    yield from provide(monkeypatch, {"ours": lambda: OURS})


BROKEN: dict[str, tuple[Callable[[], object], str]] = {
    "gone": (lambda: importlib.import_module("no_such_package"), "ModuleNotFoundError"),
    "no_format": (lambda: 5, "p:no_format is not a Format"),
    "broken": (refuse, "format 'broken': `states"),
    "twice": (lambda: next(iter(FORMATS)), "two formats are named"),
}


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    loads = {name: load for name, (load, _) in BROKEN.items()}
    yield from provide(monkeypatch, {**loads, "ours": lambda: OURS})


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_package_is_an_error_only_where_its_format_is_asked_for(
    broken: None, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert {"ours", "hermes"} < known_formats().keys()
    assert f"the format '{name}' of p cannot be loaded" in caplog.text
    assert not uses_native("auto", ParserNames("ours", "qwen3"))
    for find in (tool_format, reasoning_format):
        with pytest.raises(SetupError, match=f"the format '{name}' of p .*{BROKEN[name][1]}"):
            find(name)
    with pytest.raises(SetupError, match="correct or uninstall that package"):
        uses_native("auto", ParserNames(name))


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


def test_an_unknown_name_says_what_is_near() -> None:
    """Each known name with one character left out, or with another separator."""
    formats = [format_ for format_ in FORMATS if format_.parses_tools]
    known = {name for format_ in formats for name in (format_.name, *format_.aliases)}
    for name in known:
        for wrong in {name[1:], name[:-1], name.replace("_", "-").upper()} - known:
            if len(wrong) > 3:
                with pytest.raises(UnknownParserError, match="did you mean"):
                    linear_parsers(ParserNames(wrong), Vocabulary())
