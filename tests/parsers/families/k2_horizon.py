"""K2 Horizon: IFM tags.

`<ifm|tool_call>f<ifm|arg_key>p</ifm|arg_key><ifm|arg_value>value</ifm|arg_value></ifm|tool_call>`
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from benchmarks.samples.sample import Call, Outcome
from tests.parsers.families.family import Case, Family, Invocation, Tags, function
from tests.parsers.families.glm45 import read_text


def block(*calls: str) -> str:
    """Write calls in their block."""
    inside = "".join(f"<ifm|tool_call>{call}</ifm|tool_call>\n" for call in calls)
    return f"<ifm|tool_calls>\n{inside}</ifm|tool_calls>"


def write(content: str, calls: Sequence[Invocation], kind: str = "") -> str:
    """Write with XML tags. kind: a type to write with each argument."""
    typed = f"<ifm|arg_type>{kind}</ifm|arg_type>" if kind else ""
    written = [
        name
        + "".join(
            f"\n<ifm|arg_key>{key}</ifm|arg_key>{typed}"
            f"<ifm|arg_value>{read_text(value)}</ifm|arg_value>"
            for key, value in arguments.items()
        )
        for name, arguments in calls
    ]
    return "\n".join(([content] if content else []) + ([block(*written)] if calls else []))


TAGS = (
    *("think", "think_fast", "think_faster"),
    *("tool_calls", "tool_call", "arg_key", "arg_type", "arg_value"),
)
FREE = (function("free"),)
NOW = write("", [("now", {})])
CALL_JSON = json.dumps({"name": "write", "arguments": {"path": "a", "text": "}</x>"}})
PROMPT = "<|im_start|>assistant\n<ifm|think>"

FAMILY = Family(
    "k2_horizon",
    write,
    markers=tuple(f"<{slash}ifm|{tag}>" for tag in TAGS for slash in ("", "/")),
    reasoning_parser="k2_horizon",
    tags=Tags("<ifm|think>", "</ifm|think>", prompt_open="<ifm|think>",
              prompt_closed="<ifm|think></ifm|think>"),
    vllm="k2_horizon",
    cases=(
        Case("fast reasoning and a call", f"<ifm|think_fast>I look.</ifm|think_fast>It is\n{NOW}",
             Outcome("I look.", "It is", (Call("now", {}),))),
        Case("no end of the first call",
             write("", [("add", {"a": 1}), ("now", {})]).replace("</ifm|tool_call>", "", 1),
             Outcome(calls=(Call("add", {"a": 1}), Call("now", {}))),
             vllm="gives the markup as content"),
        Case("fastest reasoning", "<ifm|think_faster>x</ifm|think_faster>y", Outcome("x", "y"),
             tools=()),
        Case("reasoning that a call ends", f"I look.{NOW}",
             Outcome("I look.", None, (Call("now", {}),)), prompt=PROMPT),
        Case("types beside the keys", write("", [("add", {"a": 1, "b": 2.5})], "number"),
             Outcome(calls=(Call("add", {"a": 1, "b": 2.5}),)),
             vllm="reads types only where the request asks for them"),
        Case("a type that is not the declared one",
             write("", [("write", {"text": "3"})], "integer"),
             Outcome(calls=(Call("write", {"text": "3"}),)),
             vllm="reads types only where the request asks for them"),
        Case("JSON", block(CALL_JSON),
             Outcome(calls=(Call("write", {"path": "a", "text": "}</x>"}),)),
             vllm="reads JSON only where the request asks for it"),
        Case("JSON on lines of its own", block(f"\n{CALL_JSON}\n"),
             Outcome(calls=(Call("write", {"path": "a", "text": "}</x>"}),)),
             vllm="reads JSON only where the request asks for it"),
        Case("undeclared parameters are strings", write("", [("free", {"x": "3"})]),
             Outcome(calls=(Call("free", {"x": "3"}),)), tools=FREE),
        Case("white space of a string is its own", write("", [("write", {"text": "\n x \n"})]),
             Outcome(calls=(Call("write", {"text": "\n x \n"}),))),
        Case("markers in a value", write("", [("write", {"text": "a <ifm|arg_key> b"})]),
             Outcome(calls=(Call("write", {"text": "a <ifm|arg_key> b"}),))),
        Case("no end of the block", NOW.removesuffix("</ifm|tool_calls>"),
             Outcome(calls=(Call("now", {}),)), vllm="gives the markup as content"),
        Case("text behind", f"{NOW}\nDone.", Outcome(None, "Done.", (Call("now", {}),))),
        Case("a marker that begins no call", "Use <ifm|tool_calls> to call.",
             Outcome(None, "Use <ifm|tool_calls> to call.")),
        Case("cut in the name", "Hi\n<ifm|tool_calls><ifm|tool_call>wri", Outcome(None, "Hi\n"),
             finish="length", vllm="gives the markup as content"),
        Case("cut in a value",
             "<ifm|tool_calls><ifm|tool_call>write<ifm|arg_key>text</ifm|arg_key><ifm|arg_value>ab",
             Outcome(calls=(Call("write", '{"text": "ab'),)), finish="length",
             vllm="gives the markup as content"),
    ),
)  # fmt: skip
