"""Jamba: an array of calls between tags."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.samples.sample import Call, Outcome
from tests.parsers.families.family import Case, Family, Invocation
from tests.parsers.families.json_objects import (
    ENDS_EARLY,
    HI,
    HI_JSON,
    USUAL,
    WANTS_KEY,
    call_array,
    json_cases,
    to_json,
)


def enclose(call: str) -> str:
    return f"<tool_calls>[\n  {call}\n]</tool_calls>"


def write(content: str, calls: Sequence[Invocation]) -> str:
    """Write as in vLLM's tests of its parser: one object per line."""
    return content + (enclose(",\n  ".join(to_json(*call) for call in calls)) if calls else "")


NOW = Call("now", {})

FAMILY = Family(
    "jamba",
    write,
    special=("<tool_calls>", "</tool_calls>"),
    vllm="jamba",
    cases=(
        *json_cases(enclose, end="</tool"
                              "_calls"
                              ">", vllm=USUAL | WANTS_KEY | ENDS_EARLY),
        Case("one object", f"<tool_calls>{to_json('now', {})}</tool_calls>", Outcome(calls=(NOW,)),
             vllm="wants an array"),
        Case("no end marker", f'<tool_calls>[{{"name": "write", "arguments": {HI_JSON}}}]',
             Outcome(calls=(HI,)), vllm="wants the end marker"),
        Case("no comma between calls",
             f"<tool_calls>[{to_json('now', {})} {to_json('now', {})}]</tool_calls>",
             Outcome(calls=(NOW, NOW)), vllm="reads only valid JSON"),
        Case("two sections", 2 * f"<tool_calls>{call_array([('now', {})])}</tool_calls>",
             Outcome(calls=(NOW, NOW)), vllm="reads the first section only"),
        Case("text behind", f"<tool_calls>{call_array([('now', {})])}</tool_calls>\nDone.",
             Outcome(None, "Done.", (NOW,)), vllm="drops text behind a call"),
        Case("a marker that begins no call", "Use <tool_calls> to call.",
             Outcome(None, "Use <tool_calls> to call.")),
        Case("an empty array", "<tool_calls>[]</tool_calls>", Outcome()),
        Case("cut in the name", 'Hi<tool_calls>[{"name": "wri', Outcome(None, "Hi"),
             finish="length", vllm="gives the markup as content"),
        Case("cut in the arguments", '<tool_calls>[{"name": "write", "arguments": {"path": "a',
             Outcome(calls=(Call("write", '{"path": "a'),)), finish="length",
             vllm="gives the markup as content"),
    ),
)  # fmt: skip
