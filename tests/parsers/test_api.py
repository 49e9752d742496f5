"""`stream_parser`: which parsers it builds, and what it asks for."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from backedge.base.engines import has_engine
from backedge.base.errors import TOOL_CALL_FLAG, SetupError
from backedge.parsers import api, join, stream_parser
from backedge.parsers.api import NATIVE, Engine, native_names
from backedge.parsers.events import Content, Reasoning
from backedge.parsers.passthrough import PassthroughParsers

from benchmarks.samples.tokenizers import bpe, encode

TOOLS = [{"type": "function", "function": {"name": "f"}}]


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
        (("sglang", "tensorrt_llm"), "trtllm", "trtllm"),
        (("tensorrt_llm",), None, "trtllm"),
    ],
)
def test_whose_native_parsers(
    monkeypatch: pytest.MonkeyPatch, installed: Any, engine: Any, taken: str
) -> None:
    loaded = []

    class Parsers(PassthroughParsers):
        def __init__(self, *names: object) -> None:
            loaded.append(names)

    def load_native_parsers(engine: str) -> Any:
        loaded.append((engine,))
        return SimpleNamespace(**{name: Parsers for _, name in NATIVE.values()})

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name in installed or None)
    monkeypatch.setattr(api, "has_engine", lambda _: True)
    monkeypatch.setattr(api, "load_native_parsers", load_native_parsers)
    stream_parser(
        tool_call_parser="hermes", tools=TOOLS, kind="native", engine=engine, tokenizer=object()
    )
    assert loaded[0] == (taken,)
    assert len(loaded) == 2


@pytest.mark.parametrize(
    ("installed", "engine", "message"),
    [
        (
            (),
            None,
            (
                r"of vllm or sglang or trtllm are part of that engine, which is not installed "
                r"\(installed: none\)"
            ),
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
    monkeypatch.setattr(api, "has_engine", lambda _: True)
    with pytest.raises(SetupError, match=message):
        stream_parser(
            tool_call_parser="hermes", tools=TOOLS, kind="native", engine=engine, tokenizer=object()
        )


@pytest.mark.parametrize(
    ("installed", "kind", "engine", "names"),
    [
        (("vllm", "sglang"), "native", None, ["vllm's"]),
        (("vllm", "sglang"), "native", "sglang", ["sglang's"]),
        (("vllm", "sglang"), "linear", "sglang", []),
        (("vllm", "sglang"), "auto", None, []),
        (("sglang",), "native", None, ["sglang's"]),
        (("sglang",), "native", "vllm", []),
        ((), "native", None, []),
    ],
)
def test_whose_names_are_known(
    monkeypatch: pytest.MonkeyPatch, installed: Any, kind: Any, engine: Any, names: list[str]
) -> None:
    def load_native_parsers(engine: str) -> Any:
        return SimpleNamespace(known_names=lambda _: [f"{engine}'s"])

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name in installed or None)
    monkeypatch.setattr(api, "has_engine", lambda _: True)
    monkeypatch.setattr(api, "load_native_parsers", load_native_parsers)
    assert native_names(kind, engine)(TOOL_CALL_FLAG) == names


@pytest.mark.parametrize("engine", [engine for engine in NATIVE if has_engine(engine)])
def test_native_parsers_of_an_engine(engine: Engine) -> None:
    pytest.importorskip(NATIVE[engine][0])
    tokenizer = bpe()
    parser = stream_parser(
        reasoning_parser="qwen3", kind="native", engine=engine, tokenizer=tokenizer
    )
    fed = [
        parser.feed(text, encode(tokenizer, text)) for text in ("<think>", "hm", "</think>", "ok")
    ]
    assert join([event for events in fed for event in events]) == [Reasoning("hm"), Content("ok")]


@pytest.mark.parametrize(
    ("engine", "other"),
    [pair for pair in (("vllm", "sglang"), ("sglang", "vllm")) if has_engine(pair[0])],
)
def test_one_engine_does_not_import_the_other(engine: str, other: str) -> None:
    script = f"import sys, backedge.engines.{engine}.parsers as _; print('{other}' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.strip().splitlines()[-1] == "False"
