"""Olmo 3: calls on lines of their own in `<function_calls>`, reasoning in `<think>`; no marker is a token."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from benchmarks.samples.sample import Call, Outcome
from tests.parsers.families.family import Case, Family, Invocation, Tags


def value_of(value: Any) -> str:
    """Return strings in single quotes, the rest as JSON; Python's escapes, which the template lacks, keep it whole."""
    return repr(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def call(name: str, arguments: dict[str, Any]) -> str:
    """Return a call with keyword arguments."""
    return f"{name}({', '.join(f'{key}={value_of(value)}' for key, value in arguments.items())})"


def write(content: str, calls: Sequence[Invocation]) -> str:
    """Write as vLLM's chat template for Olmo 3 does."""
    lines = "\n".join(call(*invocation) for invocation in calls)
    return "\n".join(
        ([content] if content else [])
        + ([f"<function_calls>\n{lines}\n</function_calls>"] if calls else [])
    )


HI = Call("write", {"path": "a", "text": "hi"})
HI_CALL = "write(path='a', text='hi')"
NOW = Call("now", {})
LOSES_TEXT = "drops the text in front of calls"

FAMILY = Family(
    "olmo3",
    write,
    reasoning_parser="olmo3",
    tags=Tags(),
    vllm="olmo3",
    vllm_differs={"text and a call": LOSES_TEXT, "scripts": LOSES_TEXT},
    cases=(
        Case("no line breaks around the calls", f"<function_calls>{HI_CALL}</function_calls>", Outcome(calls=(HI,))),
        Case("two calls on one line", f"<function_calls>{HI_CALL}, now()</function_calls>", Outcome(calls=(HI, NOW))),
        Case("two calls with a comma at the line's end", f"<function_calls>\n{HI_CALL},\nnow()\n</function_calls>", Outcome(calls=(HI, NOW)),
             vllm="puts a second comma behind each line and gives the markup as text"),
        Case("two blocks", f"<function_calls>{HI_CALL}</function_calls>\n<function_calls>now()</function_calls>", Outcome(calls=(HI, NOW)),
             vllm="loses the second block"),
        Case("double quotes", '<function_calls>write(path="a", text="hi")</function_calls>', Outcome(calls=(HI,))),
        Case("Python's words", "<function_calls>add(a=1, exact=True, label=None)</function_calls>",
             Outcome(calls=(Call("add", {"a": 1, "exact": True, "label": None}),))),
        Case("a call over several lines", "<function_calls>\nwrite(\n  path='a',\n  text='hi'\n)\n</function_calls>", Outcome(calls=(HI,)),
             vllm="takes each line for a call and gives the markup as text"),
        Case("a line break in a string", "<function_calls>write(path='a', text='x\ny')</function_calls>",
             Outcome(calls=(Call("write", {"path": "a", "text": "x\ny"}),)), vllm="puts a comma in the string's midst"),
        Case("end marker in a string", "<function_calls>write(path='a', text='</function_calls>')</function_calls>",
             Outcome(calls=(Call("write", {"path": "a", "text": "</function_calls>"}),)), vllm="ends the calls there and gives all of it as text"),
        Case("no end marker", f"<function_calls>{HI_CALL}", Outcome(calls=(HI,)), vllm="gives the markup as text"),
        Case("text behind", f"<function_calls>{HI_CALL}</function_calls>\nDone.", Outcome(None, "Done.", (HI,)), vllm="drops text behind calls"),
        Case("calls without tags", HI_CALL, Outcome(None, HI_CALL), vllm="takes any answer for calls that reads as such"),
        Case("tags around text", "<function_calls>none needed</function_calls>", Outcome(None, "<function_calls>none needed</function_calls>")),
        Case("in a code block", f"```\n<function_calls>{HI_CALL}</function_calls>\n```", Outcome(None, f"```\n<function_calls>{HI_CALL}</function_calls>\n```"),
             vllm="takes the example for a call"),
        Case("reasoning and a call", f"<think>I write.</think><function_calls>{HI_CALL}</function_calls>", Outcome("I write.", None, (HI,))),
        Case("cut in a string", "<function_calls>write(path='a", Outcome(calls=(Call("write", '{"path": "a'),)), finish="length", vllm="gives the markup as text"),
        Case("cut in the marker", "Hi <function_c", Outcome(None, "Hi <function_c"), finish="length"),
    ),
)  # fmt: skip
