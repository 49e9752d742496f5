"""Hunyuan A13B: an array of calls between tags, and reasoning with an answer in `<answer>`."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.samples.sample import Call, Outcome
from tests.parsers.families.family import Case, Family, Invocation, Tags
from tests.parsers.families.json_objects import (
    ENDS_EARLY,
    HI,
    HI_JSON,
    KEEPS_NULL,
    STRICT,
    WANTS_KEY,
    call_array,
    json_cases,
    to_json,
)


def write(content: str, calls: Sequence[Invocation]) -> str:
    """Write as vLLM's chat template for Hunyuan A13B does."""
    return content + (f"<tool_calls>{call_array(calls)}</tool_calls>" if calls else "")


NOW = Call("now", {})

FAMILY = Family(
    "hunyuan_a13b",
    write,
    reasoning_parser="hunyuan_a13b",
    tags=Tags("<think>\n", "\n</think>\n<answer>\n", prompt_open=None,
              prompt_closed="<think>\n\n</think>\n"),
    vllm="hunyuan_a13b",
    cases=(
        *json_cases(lambda call: f"<tool_calls>[{call}]</tool_calls>", end="</tool_calls>",
                    vllm=STRICT | WANTS_KEY | KEEPS_NULL | ENDS_EARLY),
        Case("the end of the answer", "<think>\nSo.\n</think>\n<answer>\nYes.\n</answer>",
             Outcome("So.", "Yes."), tools=()),
        Case("no answer tag", "<think>\nSo.\n</think>\nYes.", Outcome("So.", "Yes."), tools=()),
        Case("empty reasoning", "<think>\n\n</think>\n<answer>\nYes.\n</answer>",
             Outcome(None, "Yes."), tools=()),
        Case("only an answer", "<answer>\nYes.\n</answer>", Outcome(None, "Yes."), tools=(),
             prompt="<think>\n\n</think>\n"),
        Case("reasoning and a call",
             f"<think>\nSo.\n</think>\n<answer>\n{write('', [('now', {})])}\n</answer>",
             Outcome("So.", None, (NOW,))),
        Case("the role in front of an answer", "助手：Yes, 助手：x.",
             Outcome(None, "Yes, 助手：x.")),
        Case("no end marker", f'<tool_calls>[{{"name": "write", "arguments": {HI_JSON}}}]',
             Outcome(calls=(HI,)), vllm="wants the end marker"),
        Case("one object", f"<tool_calls>{to_json('now', {})}</tool_calls>", Outcome(calls=(NOW,)),
             vllm="wants an array"),
        Case("text behind", write("", [("now", {})]) + "\nDone.", Outcome(None, "Done.", (NOW,)),
             vllm="drops text behind a call"),
        Case("a marker that begins no call", "Use <tool_calls> to call.",
             Outcome(None, "Use <tool_calls> to call.")),
        Case("cut in the name", 'Hi<tool_calls>[{"name": "wri', Outcome(None, "Hi"),
             finish="length", vllm="gives the markup as content"),
        Case("cut in the arguments", '<tool_calls>[{"name": "write", "arguments": {"path": "a',
             Outcome(calls=(Call("write", '{"path": "a'),)), finish="length",
             vllm="gives the markup as content"),
    ),
)  # fmt: skip
