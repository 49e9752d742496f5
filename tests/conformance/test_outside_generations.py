"""Other projects' real generations under a grammar: our parsers read each call as it was meant."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from backedge.parsers.base import ParserNames, ParserRequest
from backedge.parsers.linear_parsers import Vocabulary, spell_markers
from backedge.parsers.parser_lookup import linear_parsers, tool_format
from backedge.parsers.structural_tag import build_tag

from benchmarks.samples.sample import Call
from tests.conformance.cases import OUTSIDE
from tests.parsers.driver import cut_tokens, run
from tests.parsers.event_outcome import join_outcome
from tests.parsers.families import FAMILIES
from tests.parsers.families.family import function
from tests.parsers.walks import accepts, parse, xgrammar
from tests.slips.slips import apply, delimiters, split

GENERATIONS = sorted((OUTSIDE / "vllm_grammar_replay").glob("*.json"))
if not GENERATIONS:
    pytest.skip("there are no generations beside the checkout", allow_module_level=True)

PARSERS = {
    "DeepSeek-V3.2-Exp": "deepseek_v32",
    "DeepSeek-V4-Flash": "deepseek_v4",
    "DeepSeek-V4.1-Flash": "deepseek_v41",
    "GLM-4.5": "glm45",
    "GLM-4.7-Flash": "glm47",
    "GLM-5.2-FP8": "glm47",
    "Hy3": "hy_v3",
    "Kimi-K2.5": "kimi_k2",
    "Kimi-K3": "kimi_k3",
    "MiMo-V2.6-Flash-RL": "mimo",
    "MiniMax-M2.5": "minimax_m2",
    "MiniMax-M3": "minimax_m3",
    "Qwen3-0.6B": "hermes",
    "Qwen3.5-4B": "qwen3_coder",
    "Seed-OSS-36B-Instruct": "seed_oss",
    "Step-5-Preview": "qwen3_coder",
}
ITEMS = {"type": "array", "items": {"type": "string"}}
TOOLS = [
    function("get_weather", location="string"),
    function("add", x="number", y="number", items=ITEMS),
]
WEATHER = Call("get_weather", {"location": "Shanghai"})
ADD = Call("add", {"y": 1.0, "x": 2, "items": ["left", "right"]})
# By kind of request; the others are answered without a call.
MEANT = {
    "auto": (WEATHER, ADD),
    "required": (WEATHER, ADD),
    "named": (WEATHER,),
    "auto_schema_calls": (WEATHER, ADD),
}
# Every marker may have the checkpoint's suffix.
SUFFIXED = re.compile(r"</?\w+:opensource>")


@pytest.mark.parametrize("path", GENERATIONS, ids=lambda path: path.stem)
def test_calls_are_read_as_they_were_meant(path: Any) -> None:
    for grammar in json.loads(path.read_text(encoding="utf-8"))["grammars"]:
        for kind, generation in grammar["generations"].items():
            output = generation["completion"]
            ids = {marker: number for number, marker in enumerate(set(SUFFIXED.findall(output)), 1)}
            parsers = linear_parsers(ParserNames(PARSERS[path.stem]), Vocabulary(ids))
            parser = parsers(ParserRequest(tools=TOOLS, tool_choice="auto"), [])
            events = run(parser, cut_tokens(output, ids))
            assert join_outcome(events).calls == MEANT.get(kind, ())


SCHEMAS = [
    (name, {"type": "object", "properties": properties, "required": list(properties)})
    for name, properties in (
        ("get_weather", {"location": {"type": "string"}}),
        ("add", {"y": {"type": "number"}, "x": {"type": "number"}, "items": ITEMS}),
    )
]
THOUGHT = re.compile(r".*(?:</think(?::opensource)?>|<\|close\|>think<\|sep\|>)", re.DOTALL)
# Ends the output of Kimi K3, with the token after it.
LAST = "<|close|>message<|sep|>"


@pytest.mark.parametrize("path", GENERATIONS, ids=lambda path: path.stem)
def test_our_grammar_accepts_them_and_refuses_slips(path: Any) -> None:
    format_ = tool_format(PARSERS[path.stem])
    assert format_ is not None
    found = spell_markers(format_, SUFFIXED.findall(path.read_text(encoding="utf-8")))
    for grammar in json.loads(path.read_text(encoding="utf-8"))["grammars"]:
        for kind, generation in grammar["generations"].items():
            if kind not in MEANT:
                continue
            output = THOUGHT.sub("", generation["completion"])
            text = output.removesuffix(LAST)
            forced = not kind.startswith("auto")
            tag = build_tag(found, SCHEMAS, forced=forced, single=kind == "named")
            ours = xgrammar.Grammar.from_structural_tag(json.dumps(tag))
            assert accepts(ours, text), kind
            for slip in leave_out(format_.name, text) if forced else ():
                if accepts(ours, slip):
                    calls = join_outcome(parse(format_, TOOLS, slip)).calls
                    assert calls == MEANT[kind], slip


def leave_out(name: str, text: str) -> Iterator[str]:
    """Yield the text without each of its delimiters, except the point of a number."""
    pieces = split(FAMILIES[name], text)
    for position in delimiters(pieces):
        if pieces[position] != ".":
            yield "".join(apply(pieces, position, "leave out"))
