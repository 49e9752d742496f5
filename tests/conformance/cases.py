"""Parser cases of other projects, read from a folder of JSON lines beside the checkout.

A file's first line says where its cases come from and under which licence, and holds
`default_tools`. Each further line is one case:

    family, scenario    whose output it is, and what it is about
    input, chunks       the output, whole and as it was published
    start               "Reasoning" or "Response" if the prompt ends in an open or a closed thought
    mode                "Native", or how a forced call was written
    named_tool, finish  the forced function; the finish reason
    tools               the request's functions; without it `default_tools`
    golden              the events expected, in order: reasoning, text and tool_call

CONFORMANCE_DATA names another folder in this form.
"""

from __future__ import annotations

import functools
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backedge.parsers.base import ParserNames

BESIDE_THE_CHECKOUT = Path(__file__).parents[3] / "shared" / "conformance"
FOLDER = Path(os.environ.get("CONFORMANCE_DATA") or BESIDE_THE_CHECKOUT)
# Templates, generations and schemas of others.
OUTSIDE = FOLDER.parent / "outside"

# The parsers of each family.
PARSERS = {
    "deepseek_v3": ParserNames("deepseek_v3", "deepseek_v3"),
    "deepseek_v3_1": ParserNames("deepseek_v31", "deepseek_v3"),
    "deepseek_v3_2": ParserNames("deepseek_v32", "deepseek_v3"),
    "deepseek_v4": ParserNames("deepseek_v4", "deepseek_v4"),
    "deepseek_v41": ParserNames("deepseek_v41", "deepseek_v41"),
    "gemma4": ParserNames("gemma4", "gemma4"),
    "glm47": ParserNames("glm47", "glm47"),
    "harmony": ParserNames("openai", "openai"),
    "hermes": ParserNames("hermes"),
    "inkling": ParserNames("inkling", "inkling"),
    "jamba": ParserNames("jamba"),
    "kimi_k2": ParserNames("kimi_k2", "kimi_k2"),
    "kimi_k3": ParserNames("kimi_k3", "kimi_k3"),
    "llama3_json": ParserNames("llama3_json"),
    "minimax_m2": ParserNames("minimax_m2", "minimax_m2"),
    "minimax_m3": ParserNames("minimax_m3", "minimax_m3"),
    "mistral": ParserNames("mistral", "mistral"),
    "muse_glimmer": ParserNames("muse_glimmer", "muse_glimmer"),
    "nemotron_deci": ParserNames("nemotron_deci"),
    "nemotron_nano": ParserNames("nemotron_v3", "nemotron_v3"),
    "phi4": ParserNames("phi4_mini_json"),
    "pythonic": ParserNames("pythonic"),
    "qwen25": ParserNames("qwen25"),
    "qwen3": ParserNames("qwen3_coder", "qwen3"),
    "qwen3_coder": ParserNames("qwen3_coder"),
}

Event = tuple[str, Any]
"""("text", text), ("reasoning", text), or ("call", (name, arguments)) with decoded arguments."""


@dataclass(frozen=True)
class Case:
    """One case. chunks: the output as it was published. tools: in OpenAI's form."""

    family: str
    scenario: str
    chunks: tuple[str, ...]
    start: str | None
    mode: str
    named_tool: str | None
    finish: str
    tools: tuple[dict[str, Any], ...]
    golden: tuple[Event, ...]

    @property
    def id(self) -> str:
        return f"{self.family}-{self.scenario}"

    @property
    def output(self) -> str:
        return "".join(self.chunks)

    @property
    def names(self) -> ParserNames:
        return PARSERS[self.family]


@functools.cache
def load_cases() -> tuple[Case, ...]:
    """Return the cases of all files; none if the folder is absent."""
    cases: list[Case] = []
    for path in sorted(FOLDER.glob("*.jsonl")):
        head, *rows = map(json.loads, path.read_text().splitlines())
        cases += [_read_case(row, head["default_tools"]) for row in rows]
    return tuple(cases)


def _read_case(row: dict[str, Any], default_tools: list[dict[str, Any]]) -> Case:
    return Case(
        family=row["family"],
        scenario=row["scenario"],
        chunks=tuple(row["chunks"]),
        start=None if row["start"] == "None" else row["start"],
        mode=row["mode"],
        named_tool=row["named_tool"],
        finish=row["finish"],
        tools=tuple(
            {"type": "function", "function": tool} for tool in row.get("tools") or default_tools
        ),
        golden=tuple(_read_event(event) for event in row["golden"]),
    )


def _read_event(event: dict[str, Any]) -> Event:
    if event["kind"] == "tool_call":
        return "call", (event["name"], event["arguments"])
    return event["kind"], event["text"]
