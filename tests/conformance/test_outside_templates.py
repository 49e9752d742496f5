"""Public chat templates: the calls that each one writes are read back, value for value."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from backedge.parsers.base import ParserRequest
from backedge.parsers.detection import detect_reasoning, detect_tool_calls
from backedge.parsers.events import join
from backedge.parsers.linear_parsers import LinearParsers, Vocabulary
from backedge.templates.auto_parsers import probe_template
from backedge.templates.chat_template import (
    compile_template,
    create_environment,
    format_tools,
    reads_content_parts,
)

from benchmarks.samples.sample import Call
from tests.conformance.cases import OUTSIDE
from tests.parsers.event_outcome import join_outcome
from tests.parsers.families.family import function

TEMPLATES = {
    path.stem: path
    for folder in ("llamacpp_templates", "vllm_templates")
    for path in sorted((OUTSIDE / folder).glob("*.jinja"))
}
if not TEMPLATES:
    pytest.skip("there are no templates beside the checkout", allow_module_level=True)

TEXT = 'first\n  "second"\tit\'s\n<b>3</b> {x} \\n Ünï 世界'
WRITE = Call("write_file", {"path": "a b.txt", "text": TEXT})
COUNT = Call("set_count", {"count": -3, "ratio": 0.5, "force": True})
SEARCH = Call(
    "search",
    {"tags": ["x", "y, z", "[q]", 'say "w"'], "options": {"a": 1, "b": {"c": [1, 2, {"d": "e"}]}}},
)
EMPTY = Call("search", {"tags": [], "options": {}})
LITERAL = Call("write_file", {"path": "3", "text": "true"})
ANSWERS = (*[(call,) for call in (WRITE, COUNT, SEARCH, EMPTY, LITERAL)], (WRITE, COUNT, SEARCH))
TOOLS = [
    {**tool, "function": {**tool["function"], "description": "It helps."}}
    for tool in (
        function("write_file", path="string", text="string"),
        function("set_count", count="integer", ratio="number", force="boolean"),
        function("search", tags={"type": "array", "items": {"type": "string"}}, options="object"),
    )
]
QUESTION = "BACKEDGE-QUESTION"
SAID = "BACKEDGE-ANSWER"
SPECIAL = {"bos_token": "<s>", "eos_token": "</s>"}
# The beginning of a marker that was cut off with the common part of two texts.
CUT_MARKER = re.compile(r"[<\[◁][^>\]▷]*\Z")
SUFFIXED = re.compile(r"</?\w+:opensource>")

# Templates of models with tools whose calls no parser of ours reads, with the reason.
NOT_READ = {
    "CohereForAI-c4ai-command-r-plus-tool_use": "a format of its own: `Action:` and a code block",
    "meetkai-functionary-medium-v3.1": "a format of its own: JSON in `<function=name>`",
    "meetkai-functionary-medium-v3.2": "a format of its own: the name alone on a line",
    "upstage-Solar-Open-100B": "a format of its own: `<|tool_call:name|>`",
    "tool_chat_template_gemma3_pythonic": "writes no comma between arguments",
    "tool_chat_template_llama3.2_pythonic": "writes strings without quotes",
    "tool_chat_template_toolace": "writes strings without quotes",
    "LFM2-8B-A1B": "writes no calls",
    "LFM2.5-Instruct": "writes no calls",
}
# Templates that cannot write an answer, or write another one, with the number of such answers.
ONE_CALL = "writes one call alone"
OTHER_ANSWERS = {
    "GigaChat3-10B-A1.8B": (1, ONE_CALL),
    "GigaChat3.1-10B-A1.8B": (1, ONE_CALL),
    "openai-gpt-oss-120b": (1, ONE_CALL),
    "tool_chat_template_llama4_pythonic": (2, "writes a backslash without escaping it"),
    **dict.fromkeys(
        (
            *("meta-llama-Llama-3.1-8B-Instruct", "meta-llama-Llama-3.2-3B-Instruct"),
            *("meta-llama-Llama-3.3-70B-Instruct", "tool_chat_template_llama3.1_json"),
            "tool_chat_template_llama3.2_json",
        ),
        (1, ONE_CALL),
    ),
    "LFM2.5-8B-A1B": (2, "does not escape a backslash between quotes"),
    **dict.fromkeys(
        ("Kimi-K2-Instruct", "Kimi-K2-Thinking"),
        (len(ANSWERS), "appends to a list, which no sandbox of templates allows"),
    ),
    "fireworks-ai-llama-3-firefunction-v2": (len(ANSWERS), "wants a variable `functions`"),
    **dict.fromkeys(
        (
            *("deepseek-ai-DeepSeek-R1-Distill-Llama-8B", "tool_chat_template_glm4"),
            "ibm-granite-granite-3.3-2B-Instruct",
        ),
        (len(ANSWERS), "writes no calls"),
    ),
}


def write_turns(source: str, calls: tuple[Call, ...], content: str = "") -> list[str]:
    """Return what a template writes for an answer with calls, from where the model begins."""
    template = compile_template(source)
    parts = reads_content_parts(create_environment().parse(source))
    question = {
        "role": "user",
        "content": [{"type": "text", "text": QUESTION}] if parts else QUESTION,
    }

    def render(answer: list[Any], *, add_generation_prompt: bool) -> str | None:
        tools = format_tools(TOOLS, "vllm")
        variables: dict[str, Any] = {"messages": [question, *answer], "tools": tools}
        variables |= {**SPECIAL, "add_generation_prompt": add_generation_prompt}
        try:
            return str(template.render(variables)).rpartition(QUESTION)[2]
        except Exception:  # noqa: BLE001 - a template is the model's code and may raise anything
            return None

    turns = []
    for call_id, as_text in (
        ("call0000{}", False),
        ("functions.{1}:{0}", False),
        ("call0000{}", True),
    ):
        tool_calls = [
            {
                "id": call_id.format(number, call.name),
                "type": "function",
                "function": {
                    "name": call.name,
                    "arguments": json.dumps(call.arguments) if as_text else call.arguments,
                },
            }
            for number, call in enumerate(calls)
        ]
        answer = {"role": "assistant", "content": content, "tool_calls": tool_calls}
        prompt = render([], add_generation_prompt=True)
        turn = render([answer], add_generation_prompt=False)
        if prompt is None or turn is None:
            continue
        pairs = enumerate(zip(prompt, turn, strict=False))
        length = next((i for i, (a, b) in pairs if a != b), min(len(prompt), len(turn)))
        common = CUT_MARKER.sub("", turn[:length]) if length < len(prompt) else turn[:length]
        turns.append(turn[len(common) :])
    return turns


@pytest.mark.parametrize("name", TEMPLATES)
def test_no_template_writes_more_line_breaks_before_a_call_than_its_format(name: str) -> None:
    source = TEMPLATES[name].read_text(encoding="utf-8")
    tools = detect_tool_calls(probe_template(source, SPECIAL)).format
    if tools is None:
        return
    for turn in write_turns(source, (EMPTY,), content=SAID):
        after = turn.partition(SAID)[2]
        assert len(after) - len(after.lstrip()) <= tools.breaks_before_calls


@pytest.mark.parametrize("name", TEMPLATES)
def test_calls_are_read_back(name: str) -> None:
    source = TEMPLATES[name].read_text(encoding="utf-8")
    evidence = probe_template(source, SPECIAL)
    markers = sorted(set(SUFFIXED.findall("".join((*evidence.turns, *evidence.prompts)))))
    ids = {marker: number for number, marker in enumerate(markers, 1)}
    evidence = replace(evidence, tokens=frozenset(ids))
    tools = detect_tool_calls(evidence).format
    if tools is None:
        assert name in NOT_READ or not evidence.takes_tools
        return
    assert name not in NOT_READ
    parsers = LinearParsers(tools, detect_reasoning(evidence, tools).format, Vocabulary(ids))

    def read(turn: str) -> tuple[Call, ...]:
        parser = parsers(ParserRequest(tools=TOOLS, tool_choice="auto"), [])
        pieces = re.split(f"({SUFFIXED.pattern})", turn)
        events = [event for text in pieces for event in parser.feed(text, [ids.get(text, 0)])]
        return join_outcome(join(events + parser.finish())).calls

    others = [
        calls
        for calls in ANSWERS
        if not any(read(turn) == calls for turn in write_turns(source, calls))
    ]
    assert len(others) == OTHER_ANSWERS.get(name, (0, ""))[0], others
