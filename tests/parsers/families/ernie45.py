"""ERNIE 4.5: Hermes's calls, and reasoning with an answer in `<response>`."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.samples.sample import Call, Outcome
from tests.parsers.families.family import Case, Family, Invocation, Tags
from tests.parsers.families.json_objects import HI, HI_JSON, USUAL, json_cases, to_json


def enclose(call: str) -> str:
    return f"<tool_call>\n{call}\n</tool_call>\n"


def write(content: str, calls: Sequence[Invocation]) -> str:
    """Write as vLLM's parser describes it."""
    return (
        content
        + ("\n" if content and calls else "")
        + "".join(enclose(to_json(*call)) for call in calls)
    )


NOW = Call("now", {})

FAMILY = Family(
    "ernie45",
    write,
    markers=("<think>", "</think>", "<response>", "</response>", "<tool_call>", "</tool_call>"),
    reasoning_parser="ernie45",
    tags=Tags(prompt_closed=None),
    vllm="ernie45",
    cases=(
        *json_cases(enclose, end="</tool_call>", vllm=USUAL),
        Case("an answer in tags", "So.\n</think>\n\n<response>\nYes.\n</response>\n",
             Outcome("So.\n", "Yes.\n"), tools=(), prompt="<think>\n"),
        Case("an answer in tags, cut", "So.\n</think>\n\n<response>\nYes", Outcome("So.\n", "Yes"),
             tools=(), prompt="<think>\n", finish="length"),
        Case("an answer without tags", "So.\n</think>\nYes.", Outcome("So.\n", "Yes."), tools=(),
             prompt="<think>\n"),
        Case("reasoning and a call", f"So.\n</think>\n\n\n{enclose(to_json('now', {}))}",
             Outcome("So.\n", None, (NOW,)), prompt="<think>\n"),
        Case("reasoning, an answer and a call",
             f"So.\n</think>\n\n<response>\nI call.\n</response>\n{enclose(to_json('now', {}))}",
             Outcome("So.\n", "I call.", (NOW,)), prompt="<think>\n"),
        Case("no end marker", f'<tool_call>{{"name": "write", "arguments": {HI_JSON}}}',
             Outcome(calls=(HI,)), vllm="gives nothing at all"),
        Case("text behind", enclose(to_json("now", {})) + "Done.", Outcome(None, "Done.", (NOW,)),
             vllm="drops text behind a call"),
        Case("a marker that begins no call", "Use <tool_call> to call.",
             Outcome(None, "Use <tool_call> to call."), vllm="drops everything from the marker on"),
        Case("cut in the name", 'Hi\n<tool_call>\n{"name": "wri', Outcome(None, "Hi\n"),
             finish="length", vllm="drops the line break, too"),
        Case("cut in the arguments", '<tool_call>\n{"name": "write", "arguments": {"path": "a',
             Outcome(calls=(Call("write", '{"path": "a'),)), finish="length",
             vllm="gives nothing at all"),
    ),
)  # fmt: skip
