"""Qwen 3 Coder and its relatives: `<function=f><parameter=p>value</parameter></function>`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from tests.parsers.families.family import Case, Family, Invocation, function
from tests.samples.sample import Call, Outcome


def text_of(value: Any) -> str:
    """Return a parameter's text: strings as they are, Python's str() of the rest, JSON of objects and lists."""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else str(value)


def write(content: str, calls: Sequence[Invocation]) -> str:
    """Write as the chat template of Qwen3-Coder does."""
    written = []
    for name, arguments in calls:
        parameters = "".join(f"<parameter={key}>\n{text_of(value)}\n</parameter>\n" for key, value in arguments.items())
        written.append(f"<tool_call>\n<function={name}>\n{parameters}</function>\n</tool_call>")
    return "\n".join(([content] if content else []) + written)


UNDECLARED = (function("free"),)

FAMILY = Family(
    "qwen3_coder",
    write,
    markers=("<tool_call>", "</tool_call>"),
    vllm="qwen3_coder",
    vllm_differs={"types": "its template writes Python's None for null; vLLM keeps the word where a string is allowed, too"},
    cases=(
        Case("end marker of the call in a value", write("", [("write", {"text": "a </tool_call> b </function> c"})]),
             Outcome(calls=(Call("write", {"text": "a </tool_call> b </function> c"}),)),
             vllm="loses the parameter"),
        Case("blank lines in a value", write("", [("write", {"text": "\n\nx\n\n"})]), Outcome(calls=(Call("write", {"text": "\n\nx\n\n"}),))),
        Case("undeclared parameters are strings", write("", [("free", {"x": "3"})]), Outcome(calls=(Call("free", {"x": "3"}),)), tools=UNDECLARED),
        Case("a word where a number is declared", write("", [("add", {"a": "many"})]), Outcome(calls=(Call("add", {"a": "many"}),))),
        Case("Python's literals", "<tool_call>\n<function=query>\n<parameter=filter>\n{'a': True, 'b': None}\n</parameter>\n</function>\n</tool_call>",
             Outcome(calls=(Call("query", {"filter": {"a": True, "b": None}}),)),
             vllm="gives a string where an object is declared"),
        Case("no end of the call", "<tool_call>\n<function=now>\n</function>", Outcome(calls=(Call("now", {}),))),
        Case("text behind", write("", [("now", {})]) + "\nDone.", Outcome(None, "Done.", (Call("now", {}),)), vllm="drops text behind a call"),
        Case("cut in a value", "<tool_call>\n<function=write>\n<parameter=text>\nab",
             Outcome(calls=(Call("write", '{"text": "ab'),)), finish="length", vllm="loses the parameter"),
    ),
)  # fmt: skip
