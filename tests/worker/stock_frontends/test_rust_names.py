"""The names of formats in Dynamo's own frontend."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest
from backedge.base.errors import REASONING_FLAG, TOOL_CALL_FLAG
from backedge.engines.sglang.worker import SglangWorker
from backedge.engines.trtllm.worker import TrtllmWorker
from backedge.engines.vllm.worker import VllmWorker
from backedge.parsers.base import ParserNames
from backedge.parsers.parser_lookup import known_formats
from backedge.testing.replay_worker.flags import build_flag_parser, find_parsers
from backedge.worker.flags import WorkerSettings
from backedge.worker.stock_frontends import (
    complete_names,
    known_in_rust,
    name_in_rust,
)


@pytest.mark.parametrize(
    ("flag", "name", "expected"),
    [
        (TOOL_CALL_FLAG, "hermes", "hermes"),
        (TOOL_CALL_FLAG, "openai", "harmony"),
        (TOOL_CALL_FLAG, "deepseek_v31", "deepseek_v3_1"),
        (TOOL_CALL_FLAG, "phi4_mini_json", "phi4"),
        (TOOL_CALL_FLAG, "xlam", None),
        (REASONING_FLAG, "openai", "gpt_oss"),
        (REASONING_FLAG, "qwen3", "qwen3"),
    ],
)
def test_a_name_of_ours_comes_first(flag, name, expected) -> None:
    entry = known_formats()[name]
    format_ = entry.tools if flag == TOOL_CALL_FLAG else entry.reasoning
    assert format_ is not None
    assert name_in_rust(flag, format_) == expected


def test_without_dynamo_there_are_none(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "dynamo._core", None)
    assert known_in_rust(TOOL_CALL_FLAG) == ()


NAMES = [
    (ParserNames(), ParserNames("hermes", "qwen3"), "auto", ParserNames("hermes", "qwen3")),
    (ParserNames(), ParserNames("deepseek_v3_1", "gpt_oss"), "linear",
     ParserNames("deepseek_v31", "openai")),
    (ParserNames("mistral"), ParserNames("hermes", "qwen3"), "auto",
     ParserNames("mistral", "qwen3")),
    # No format of ours, or native parsers.
    (ParserNames(), ParserNames("default", "step"), "auto", ParserNames()),
    (ParserNames(), ParserNames("hermes", "qwen3"), "native", ParserNames()),
    (ParserNames("hermes"), ParserNames(), "auto", ParserNames("hermes")),
]  # fmt: skip


@pytest.mark.parametrize(("names", "in_rust", "kind", "expected"), NAMES)
def test_missing_names_are_those_of_dynamos_flags(names, in_rust, kind, expected) -> None:
    assert complete_names(names, in_rust, kind) == expected


def enable(adapter: type[Any], names: ParserNames, in_rust: ParserNames) -> ParserNames:
    """Return the parsers of an engine's worker with these flags; no engine is loaded."""
    found: list[ParserNames] = []

    class Seen(adapter):
        def check_seams(self) -> None:
            """Do nothing: these are the engine's."""

        check_text_flag = load_plugins = check_seams

        def check_names(self, also_known: set[str]) -> None:
            """Do nothing, as above."""

        def install_card(self) -> None:
            found.append(self.settings.names)

        def post_processes(self) -> bool:
            return False

    parsers = {"dyn_tool_call_parser": in_rust.tool_call, "dyn_reasoning_parser": in_rust.reasoning}
    flags = SimpleNamespace(**parsers)
    flags.dynamo_args = flags  # where SGLang's worker has them
    Seen.enable(flags, WorkerSettings(names=names))
    return found[0]


def replay(_: object, names: ParserNames, in_rust: ParserNames) -> ParserNames:
    """Return the parsers of the replay worker with these flags."""
    words = {
        TOOL_CALL_FLAG: names.tool_call,
        REASONING_FLAG: names.reasoning,
        "--dyn-tool-call-parser": in_rust.tool_call,
        "--dyn-reasoning-parser": in_rust.reasoning,
    }
    given = [word for flag, name in words.items() if name is not None for word in (flag, name)]
    return find_parsers(build_flag_parser().parse_args(given))


@pytest.mark.parametrize(
    ("names", "in_rust", "expected"),
    [(names, in_rust, expected) for names, in_rust, kind, expected in NAMES if kind == "auto"],
)
@pytest.mark.parametrize(
    ("read", "adapter"),
    [
        *((enable, adapter) for adapter in (VllmWorker, SglangWorker, TrtllmWorker)),
        (replay, None),
    ],
    ids=["vllm", "sglang", "trtllm", "replay"],
)
def test_the_rule_is_that_of_all_workers(read, adapter, names, in_rust, expected) -> None:
    assert read(adapter, names, in_rust) == expected
