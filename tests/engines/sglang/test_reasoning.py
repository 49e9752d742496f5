"""Where SGLang's reasoning parsers begin: as its own server has it."""

from __future__ import annotations

import copy
import subprocess
import sys
from itertools import filterfalse
from pathlib import Path
from typing import Any

import pytest
from backedge.base.server_names import find_own_name
from backedge.engines.sglang.parsers import MODES, SglangParsers
from backedge.parsers.base import ParserNames, ParserRequest
from backedge.parsers.events import Content, Reasoning
from sglang.srt.parser.reasoning_parser import ReasoningParser

from benchmarks.samples.tokenizers import bpe, encode

ROOT = Path(__file__).parents[3]
CLOSED, OPEN = "<think>\n\n</think>\n\n", "<think>\n"


@pytest.mark.parametrize(
    ("name", "kwargs", "prompt", "reasons"),
    [
        ("qwen3", {}, "", True),
        ("qwen3", {"enable_thinking": False}, "", False),
        ("qwen3", {}, CLOSED, False),
        ("qwen3", {"enable_thinking": False}, OPEN, True),
        ("deepseek-v3", {}, "", False),
        ("deepseek-v3", {"thinking": True}, "", True),
        ("deepseek-v3", {}, OPEN, True),
        ("deepseek-r1", {}, "", True),
        ("deepseek-r1", {}, CLOSED, False),
        ("deepseek-r1", {}, CLOSED + OPEN, True),
        ("minimax-m3", {"thinking_mode": "enabled"}, "", True),
        ("hunyuan", {}, "", False),
        ("hunyuan", {"reasoning_effort": "high"}, "", True),
        ("kimi", {}, "", False),
    ],
)
def test_where_reasoning_begins(name: str, kwargs: dict[str, Any], prompt: str, reasons: bool):
    tokenizer = copy.deepcopy(bpe())
    tokenizer.chat_template = None  # or it would say what is the default
    turn = encode(
        tokenizer, f"<|im_start|>user\n<think>x</think>?<|im_end|>\n<|im_start|>assistant\n{prompt}"
    )
    parser = SglangParsers(tokenizer, ParserNames(reasoning=name))(
        ParserRequest(chat_template_kwargs=kwargs), turn
    )
    assert parser.in_reasoning is reasons
    assert parser.feed("17", [1]) == ([Reasoning("17")] if reasons else [Content("17")])


def test_reasoning_is_forced_where_sglangs_server_forces_it():
    ran = subprocess.run(
        [sys.executable, "-m", "tests.engines.parsers.sglang_server"],
        capture_output=True, text=True, check=True, cwd=ROOT,
    )  # fmt: skip
    assert [line for line in ran.stdout.splitlines() if line.startswith(("DIFFERS", "DONE"))] == [
        "DONE"
    ]


def test_every_mode_of_sglang_is_known():
    names = filterfalse(find_own_name, ReasoningParser.DetectorMap)
    assert {ReasoningParser(name).detector.reasoning_default for name in names} <= set(MODES)
