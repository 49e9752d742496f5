"""IBM Granite 3 and Granite 20B Function Calling."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.samples.sample import Call, Outcome
from tests.parsers.families.family import Case, Family, Invocation, Tags
from tests.parsers.families.json_objects import (
    KEEPS_NULL,
    LENIENT_STREAM,
    USUAL,
    WANTS_KEY,
    call_array,
    json_cases,
    to_json,
)


def write(content: str, calls: Sequence[Invocation]) -> str:
    """Write as vLLM's parser describes Granite 3.0."""
    return content + (f"<|tool_call|>{call_array(calls)}" if calls else "")


def write_20b(content: str, calls: Sequence[Invocation]) -> str:
    """Write as vLLM's chat template for granite-20b-functioncalling does."""
    return content + "".join(f"<function_call> {to_json(*call)}\n" for call in calls)


NOW = Call("now", {})

FAMILIES = (
    Family(
        "granite",
        write,
        special=("<|tool_call|>",),
        reasoning_parser="granite",
        tags=Tags("Here is my thought process:", "Here is my response:", prompt_open=None,
                  prompt_closed=None),
        vllm="granite",
        cases=(
            *json_cases(lambda call: f"<|tool_call|>[{call}]", vllm=KEEPS_NULL | LENIENT_STREAM),
            Case("cut in the marker of reasoning", "Here is my thought process", Outcome(),
                 finish="length", tools=()),
            Case("cut in a sentence", "Here is my", Outcome(None, "Here is my"), finish="length",
                 tools=()),
            Case("the marker as text", f"<tool_call>{call_array([('now', {})])}",
                 Outcome(calls=(NOW,))),
            Case("white space behind the marker",
                 f"<|tool_call|> \n{call_array([('now', {}), ('now', {})])}",
                 Outcome(calls=(NOW, NOW))),
            Case("one object", f"<|tool_call|>{to_json('now', {})}", Outcome(calls=(NOW,)),
                 vllm="gives the object as content"),
            Case("text behind", f"<|tool_call|>{call_array([('now', {})])}\nDone.",
                 Outcome(None, "Done.", (NOW,)), vllm="drops text behind a call"),
            Case("a marker that begins no call", "Use <tool_call> to call.",
                 Outcome(None, "Use <tool_call> to call."), vllm="drops the marker"),
            Case("the short form", "Here's my thought process: So.\nHere's my response: Yes.",
                 Outcome(" So.\n", " Yes."), tools=()),
            Case("words of the marker in a sentence", "So: Here is my thought process: I add.",
                 Outcome(None, "So: Here is my thought process: I add."), tools=()),
            Case("reasoning and a call",
                 "Here is my thought process:So. Here is my response:<|tool_call|>"
                 + call_array([("now", {})]),
                 Outcome("So. ", None, (NOW,))),
            Case("cut in the name", 'Hi<|tool_call|>[{"name": "wri', Outcome(None, "Hi"),
                 finish="length"),
            Case("cut in the arguments", '<|tool_call|>[{"name": "write", "arguments": {"path": "a',
                 Outcome(calls=(Call("write", '{"path": "a'),)), finish="length"),
        ),
    ),
    Family(
        "granite-20b-fc",
        write_20b,
        markers=("<function_call>",),
        vllm="granite-20b-fc",
        cases=(
            *json_cases(lambda call: f"<function_call> {call}",
                        vllm=USUAL | WANTS_KEY),
            Case("nothing between calls",
                 f"<function_call>{to_json('now', {})}<function_call>{to_json('now', {})}",
                 Outcome(calls=(NOW, NOW))),
            Case("the marker in a string",
                 f"<function_call> {to_json('write', {'text': 'a <function_call> b'})}",
                 Outcome(calls=(Call("write", {"text": "a <function_call> b"}),)),
                 vllm="begins another call at the marker inside the string"),
            Case("text behind", f"<function_call> {to_json('now', {})}\nDone.",
                 Outcome(None, "Done.", (NOW,)), vllm="drops text behind a call"),
            Case("a marker that begins no call", "Use <function_call> to call.",
                 Outcome(None, "Use <function_call> to call.")),
            Case("no function that fits",
                 '<function_call> {"name": "no_function", "arguments": {}}',
                 Outcome(calls=(Call("no_function", {}),))),
            Case("cut in the name", 'Hi <function_call> {"name": "wri', Outcome(None, "Hi "),
                 finish="length", vllm="gives the markup as content"),
            Case("cut in the arguments",
                 '<function_call> {"name": "write", "arguments": {"path": "a',
                 Outcome(calls=(Call("write", '{"path": "a'),)), finish="length",
                 vllm="gives the markup as content"),
        ),
    ),
)  # fmt: skip
