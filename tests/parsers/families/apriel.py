"""Apriel 1.5 and 1.6: reasoning up to a line in brackets, and an array of calls between tags."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.samples.sample import Call, Outcome
from tests.parsers.families.family import TURN, Case, Family, Invocation, Tags
from tests.parsers.families.json_objects import call_array, json_cases


def enclose(call: str) -> str:
    return f"<tool_calls>[{call}]</tool_calls>"


def write(content: str, calls: Sequence[Invocation]) -> str:
    """Write as the chat template of Apriel 1.6 does, without the thought."""
    return content + (f"\n<tool_calls>{call_array(calls)}</tool_calls>" if calls else "")


NOW = Call("now", {})

FAMILY = Family(
    "apriel",
    write,
    special=("<tool_calls>", "</tool_calls>"),
    reasoning_parser="apriel",
    tags=Tags("Here are my reasoning steps:\n", "\n[BEGIN FINAL RESPONSE]\n",
              prompt_open="Here are my reasoning steps:\n", prompt_closed=None),
    prompt=f"{TURN}[BEGIN FINAL RESPONSE]\n",
    cases=(
        *json_cases(enclose, end="</tool_calls>"),
        Case("the end of the answer", "So.\n[BEGIN FINAL RESPONSE]\nYes.\n[END FINAL RESPONSE]",
             Outcome("So.", "Yes."), prompt=TURN),
        Case("a call in the thought", f"I look.<tool_calls>{call_array([('now', {})])}"
             "</tool_calls>", Outcome("I look.", None, (NOW,)), prompt=TURN),
        Case("cut in the marker", "So.\n[BEGIN FINAL", Outcome("So."), finish="length",
             prompt=TURN),
        Case("cut in the arguments",
             '<tool_calls>[{"name": "write", "arguments": {"path": "a',
             Outcome(calls=(Call("write", '{"path": "a'),)), finish="length"),
    ),
)  # fmt: skip
