"""The scenarios of tests/parsers/families/ for each of SGLang's tool parsers, and its errors."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import filterfalse
from typing import Any

from backedge.base.server_names import find_own_name
from backedge.engines.sglang.parsers import SglangParsers
from backedge.parsers.base import ParserNames, ParserRequest
from backedge.parsers.events import join
from backedge.parsers.parser_lookup import tool_format
from sglang.srt.entrypoints.openai.protocol import Tool
from sglang.srt.function_call.function_call_parser import FunctionCallParser

from benchmarks.samples.sample import Call, Outcome
from benchmarks.samples.tokenizers import bpe
from tests.parsers.event_outcome import join_outcome, parse_arguments
from tests.parsers.families import FAMILIES
from tests.parsers.families.family import SCENARIOS_BY_ID, TOOLS, Case, Family
from tests.parsers.sample_model import feed_tokens

Rewrite = Callable[[str], str]


def substitute(*pairs: tuple[str, str]) -> Rewrite:
    """Return a function that replaces patterns, in their order."""

    def rewrite(text: str) -> str:
        for pattern, new in pairs:
            text = re.sub(pattern, new, text)
        return text

    return rewrite


NAME_IN_A_LINE = substitute((r"(<tool_call>\w+)", r"\1\n"))
# For SGLang's parsers without a family of their name, or for another dialect: the family and what
# to rewrite in its output.
DIALECTS: dict[str, tuple[str, Rewrite]] = {
    "cohere_command4": ("cohere_command3", substitute((r"<\|(START|END)_RESPONSE\|>", ""))),
    "gigachat35": ("deepseek_v4", substitute(("DSML", "GCML"))),
    "glm": ("glm45", NAME_IN_A_LINE),
    "glm45": ("glm45", NAME_IN_A_LINE),
    "hunyuan": (
        "glm45",
        substitute(
            (r"(<tool_call>\w+)", r"\1<tool_sep>"), ("<tool_call>", "<tool_calls><tool_call>"),
            ("</tool_call>", "</tool_call></tool_calls>"), (r"</tool_calls>\s*<tool_calls>", ""),
        ),
    ),
    "interns1": ("internlm", substitute((r"<\|plugin\|>", " <|plugin|>"))),
    "iquest_q1": ("glm45", substitute(("tool_call>", "iquest_tool_call>"))),
    "mimo": (
        "qwen3_coder",
        substitute((r"(<parameter=\w+>)\n", r"\1"), (r"\n(</parameter>)", r"\1")),
    ),
    "nanbeige": ("qwen3_coder", str),
    "spark25": ("glm45", NAME_IN_A_LINE),
    "trinity": ("hermes", str),
}  # fmt: skip


@dataclass(frozen=True)
class Row:
    """One scenario, as models of SGLang's parser `name` write it."""

    name: str
    family: Family
    case: Case

    @property
    def id(self) -> str:
        return f"{self.name}-{self.case.id}"

    @property
    def tools(self) -> list[dict[str, Any]]:
        return list(TOOLS)

    def tokenizer(self) -> Any:
        return bpe(self.family.markers, self.family.special)


@dataclass(frozen=True)
class Wrong:
    """What SGLang makes of some scenarios is wrong, when it streams or in its batch answer.

    A difference that is gone fails its test.
    """

    names: tuple[str, ...]
    scenarios: tuple[str, ...]
    sides: tuple[str, ...]
    why: str


STREAM, BATCH = ("stream",), ("batch",)
BOTH = STREAM + BATCH
TYPES = ("types",)
SECOND_CALLS = ("two calls", "three of one", "a call behind one without arguments")
SGLANG_ERRORS = (
    Wrong(("glm", "glm45", "ling3"), TYPES, BOTH,
          "makes a string of null if the parameter has a list of types"),
    Wrong(("k2_horizon",), TYPES, BOTH,
          "makes a string of null if the parameter has a list of types"),
    Wrong(("minimax-m3",), TYPES, STREAM,
          "makes a string of null if the parameter has a list of types"),
    Wrong(
        ("qwen3_coder", "step3p5", "nanbeige"), TYPES, BOTH,
        "makes the string None of null if the parameter has a list of types",
    ),
    Wrong(("gemma4",), ("types", "nested"), BOTH, "makes the string None of null"),
    Wrong(("hunyuan",), TYPES, BOTH,
          "loses the rest of a call after a parameter with a list of types"),
    Wrong(("mimo",), TYPES, BOTH, "raises on a parameter with a list of types"),
    Wrong(("mimo",), ("markup",), BOTH, "replaces HTML's entities in arguments"),
    Wrong(("pythonic",), TYPES, BOTH, "drops a call with a negative number"),
    Wrong(("pythonic",), ("braces",), STREAM,
          "counts brackets inside strings, and gives the call as content"),
    Wrong(("step3",), ("markup",), BOTH, "loses arguments that hold angle brackets"),
    Wrong(
        ("muse",), ("three of one", "strings that look like other types"), BOTH,
        "reads every value as JSON, so strings become numbers and booleans",
    ),
    Wrong(("llama3",), ("a long string",), STREAM, "stops at quotes and a colon inside a string"),
    Wrong(("mistral",), ("text",), STREAM, "drops the first closing bracket of plain text"),
    Wrong(("interns1",), SECOND_CALLS, STREAM, "loses every call but the first"),
    Wrong(("gigachat3",), SECOND_CALLS, BOTH, "takes a second call for arguments of the first"),
    Wrong(("gpt-oss",), ("text",), BOTH, "writes an angle bracket that may begin a marker twice"),
    # SGLang's batch parsers see text that the streaming ones, or the reasoning parser, remove.
    Wrong(
        ("gpt-oss",),
        tuple(SCENARIOS_BY_ID.keys() - {"text", "text and a call", "scripts", *SECOND_CALLS}),
        BATCH, "finds no call without <|start|>assistant before it",
    ),
    Wrong(("kimi_k3", "muse", "inkling"), ("text",), BATCH,
          "leaves the markers around the answer in it"),
    Wrong(("glm", "glm45", "ling3"), ("strings that look like other types",), BATCH,
          "makes True of the string true"),
    Wrong(("step3",), ("no arguments", "a call behind one without arguments"), BATCH,
          "drops a call without arguments"),
)  # fmt: skip
WRONG_SIDES = {
    (name, scenario): wrong
    for wrong in SGLANG_ERRORS
    for name in wrong.names
    for scenario in wrong.scenarios
}


def _rows() -> list[Row]:
    rows = []
    for name in filterfalse(find_own_name, FunctionCallParser.ToolCallParserEnum):
        format_ = tool_format(name)
        family, rewrite = DIALECTS.get(name) or (format_.name if format_ else "", str)
        rows += [
            Row(name, FAMILIES[family], replace(case, output=rewrite(case.output)))
            for case in FAMILIES[family].all_cases()
            if case.id in SCENARIOS_BY_ID
        ]
    return rows


ROWS = _rows()


@functools.cache
def native_parsers(name: str, family: str) -> SglangParsers:
    """Return our adapter for one name, which is the same in all its rows."""
    return SglangParsers(bpe(FAMILIES[family].markers, FAMILIES[family].special), ParserNames(name))


def streamed(row: Row) -> Outcome:
    """Return what our adapter makes of the output, one token at a time."""
    tokenizer = row.tokenizer()
    request = ParserRequest(tools=row.tools, tool_choice="auto")
    parser = native_parsers(row.name, row.family.name)(request, [])
    events = feed_tokens(parser, tokenizer, row.case.output, skip_special_tokens=False)
    return join_outcome(join(events + parser.finish()))


def batch(row: Row) -> Outcome:
    """Return what SGLang's parser makes of the whole output, as its server does without stream."""
    tools = [Tool.model_validate(tool) for tool in row.tools]
    parser = FunctionCallParser(tools, row.name, tokenizer=row.tokenizer())
    content, items = parser.parse_non_stream(row.case.output)
    calls = tuple(Call(item.name, parse_arguments(item.parameters)) for item in items)
    return Outcome(None, (content.strip() if calls else content) or None, calls)
