"""Dots: invocations like those of MiniMax M2 between `<dots_function_call>` tags."""

from __future__ import annotations

import json
from collections.abc import Sequence

from benchmarks.samples.sample import Call, Outcome
from tests.parsers.families.family import Case, Family, Invocation, function
from tests.parsers.families.minimax import invoke


def write(content: str, calls: Sequence[Invocation], quote: str = '"') -> str:
    """Write all calls in one block."""
    block = "".join(invoke(name, arguments, quote) for name, arguments in calls)
    written = [content] if content else []
    return "\n".join(
        written + ([f"<dots_function_call>\n{block}</dots_function_call>"] if calls else [])
    )


FREE = (function("free"),)
NOW = write("", [("now", {})])
HI = ("write", {"path": "a", "text": "hi"})
CALL_JSON = json.dumps({"name": HI[0], "arguments": HI[1]})

FAMILY = Family(
    "dots",
    write,
    markers=("<dots_function_call>", "</dots_function_call>"),
    vllm="dots",
    cases=(
        Case("single quotes", write("", [HI], "'"), Outcome(calls=(Call(*HI),))),
        Case("no quotes", write("", [HI], ""), Outcome(calls=(Call(*HI),))),
        Case("JSON", f"<dots_function_call>\n{CALL_JSON}\n</dots_function_call>",
             Outcome(calls=(Call(*HI),))),
        Case("a block for each call", f"{NOW}\n{NOW}",
             Outcome(calls=(Call("now", {}), Call("now", {})))),
        Case("no white space",
             '<dots_function_call><invoke name="add"><parameter name="a">1</parameter></invoke>'
             '</dots_function_call>',
             Outcome(calls=(Call("add", {"a": 1}),))),
        Case("white space of a string is its own", write("", [("write", {"text": "\n x \n"})]),
             Outcome(calls=(Call("write", {"text": "\n x \n"}),)),
             vllm="strips strings, such as the indent of code"),
        Case("end markers in a value",
             write("", [("write", {"text": "a </invoke> b </dots_function_call> c"})]),
             Outcome(calls=(Call("write", {"text": "a </invoke> b </dots_function_call> c"}),)),
             vllm="ends the call at the first end marker"),
        Case("undeclared parameters are strings", write("", [("free", {"x": "3"})]),
             Outcome(calls=(Call("free", {"x": "3"}),)), tools=FREE),
        Case("a word where a truth value is declared", write("", [("add", {"exact": "maybe"})]),
             Outcome(calls=(Call("add", {"exact": "maybe"}),)), vllm="gives false"),
        Case("no end of the block", NOW.removesuffix("</dots_function_call>"),
             Outcome(calls=(Call("now", {}),)), vllm="loses the call"),
        Case("text behind", f"{NOW}\nDone.", Outcome(None, "Done.", (Call("now", {}),)),
             vllm="drops text behind a call"),
        Case("a marker that begins no call", "Use <dots_function_call> to call.",
             Outcome(None, "Use <dots_function_call> to call.")),
        Case("cut in the name", 'Hi\n<dots_function_call>\n<invoke name="wri',
             Outcome(None, "Hi\n"), finish="length", vllm="gives the markup as content"),
        Case("cut in a value",
             '<dots_function_call>\n<invoke name="write">\n<parameter name="text">ab',
             Outcome(calls=(Call("write", '{"text": "ab'),)), finish="length",
             vllm="loses the call"),
    ),
)  # fmt: skip
