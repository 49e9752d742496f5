from __future__ import annotations

import importlib.metadata
import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from backedge.parsers import join, stream_parser
from backedge.parsers.api import NATIVE
from backedge.parsers.base import ParserNames
from backedge.parsers.errors import SetupError, UnknownParserError, UnusableParserError
from backedge.parsers.events import Content, Reasoning, ToolCallArguments, ToolCallStarted
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
from backedge.parsers.passthrough import PassthroughParsers

from benchmarks.samples.tokenizers import bpe, encode

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


def test_a_format_that_the_tokenizer_cannot_write() -> None:
    with pytest.raises(
        UnusableParserError, match=r"'openai' cannot be used: .* has none of <\|message\|>"
    ):
        linear_parsers(ParserNames("openai"), Vocabulary({"<|im_end|>": 1}))


def test_both_by_themselves() -> None:
    parser = stream_parser(tool_call_parser="hermes", reasoning_parser="qwen3", tools=TOOLS)
    assert parser.feed("hm</think>ok") == [Reasoning("hm"), Content("ok")]


def test_native_parsers_want_a_tokenizer() -> None:
    with pytest.raises(SetupError, match="pass `tokenizer`"):
        stream_parser(tool_call_parser="hermes", tools=TOOLS, kind="native")


@pytest.mark.parametrize(
    ("installed", "engine", "taken"),
    [
        (("vllm", "sglang"), None, "vllm"),
        (("vllm", "sglang"), "sglang", "sglang"),
        (("sglang",), None, "sglang"),
    ],
)
def test_whose_native_parsers(
    monkeypatch: pytest.MonkeyPatch, installed: Any, engine: Any, taken: str
) -> None:
    imported = []

    class Parsers(PassthroughParsers):
        def __init__(self, *names: object) -> None:
            imported.append(names)

    def import_module(name: str, package: str) -> Any:
        imported.append((name, package))
        return SimpleNamespace(**dict.fromkeys(NATIVE.values(), Parsers))

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name in installed or None)
    monkeypatch.setattr(importlib, "import_module", import_module)
    stream_parser(
        tool_call_parser="hermes", tools=TOOLS, kind="native", engine=engine, tokenizer=object()
    )
    assert imported[0] == (f".native.{taken}", "backedge.parsers")
    assert len(imported) == 2


@pytest.mark.parametrize(
    ("installed", "engine", "message"),
    [
        (
            (),
            None,
            r"of vllm or sglang are part of that engine, which is not installed \(installed: none\)",
        ),
        (
            ("vllm",),
            "sglang",
            r"of sglang are part of that engine, which is not installed \(installed: vllm\)",
        ),
    ],
)
def test_an_engine_that_is_missing(
    monkeypatch: pytest.MonkeyPatch, installed: Any, engine: Any, message: str
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name in installed or None)
    with pytest.raises(SetupError, match=message):
        stream_parser(
            tool_call_parser="hermes", tools=TOOLS, kind="native", engine=engine, tokenizer=object()
        )


def test_native_parsers_of_an_engine() -> None:
    tokenizer = bpe()
    for engine in NATIVE:
        parser = stream_parser(
            reasoning_parser="qwen3", kind="native", engine=engine, tokenizer=tokenizer
        )
        fed = [
            parser.feed(text, encode(tokenizer, text))
            for text in ("<think>", "hm", "</think>", "ok")
        ]
        assert join([event for events in fed for event in events]) == [
            Reasoning("hm"),
            Content("ok"),
        ]


@pytest.mark.parametrize(("engine", "other"), [("vllm", "sglang"), ("sglang", "vllm")])
def test_one_engine_does_not_import_the_other(engine: str, other: str) -> None:
    script = f"import sys, backedge.parsers.native.{engine} as _; print('{other}' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.strip().splitlines()[-1] == "False"


def test_every_format_says_where_it_is_from() -> None:
    assert all(format_.source for format_ in FORMATS)
    assert all(format_.parses_tools or format_.parses_reasoning for format_ in FORMATS)
