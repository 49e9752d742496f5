"""Qwen 3's reasoning, and the calls of Qwen 3 Coder and its relatives."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from benchmarks.samples.sample import Call, Outcome
from tests.parsers.families.family import Case, Family, Invocation, Tags, function
from tests.parsers.families.think import UNOPENED

QWEN3 = Family(
    reasoning_parser="qwen3", tags=Tags(), markers=("<think>", "</think>"), cases=UNOPENED
)


def read_text(value: Any) -> str:
    """Return a parameter's text: strings unchanged, JSON of objects and lists, else str()."""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else str(value)


def write(content: str, calls: Sequence[Invocation]) -> str:
    """Write as the chat template of Qwen3-Coder does."""
    written = []
    for name, arguments in calls:
        parameters = "".join(
            f"<parameter={key}>\n{read_text(value)}\n</parameter>\n"
            for key, value in arguments.items()
        )
        written.append(f"<tool_call>\n<function={name}>\n{parameters}</function>\n</tool_call>")
    return "\n".join(([content] if content else []) + written)


UNDECLARED = (function("free"),)

CODER = Family(
    "qwen3_coder",
    write,
    markers=("<tool_call>", "</tool_call>"),
    vllm="qwen3_coder",
    vllm_differs={"types": "its template writes Python's None for null; vLLM keeps the word "
                           "where a string is allowed, too"},
    cases=(
        Case("end marker of the call in a value",
             write("", [("write", {"text": "a </tool_call> b </function> c"})]),
             Outcome(calls=(Call("write", {"text": "a </tool_call> b </function> c"}),)),
             vllm="loses the parameter"),
        Case("blank lines in a value", write("", [("write", {"text": "\n\nx\n\n"})]),
             Outcome(calls=(Call("write", {"text": "\n\nx\n\n"}),))),
        Case("undeclared parameters are strings", write("", [("free", {"x": "3"})]),
             Outcome(calls=(Call("free", {"x": "3"}),)), tools=UNDECLARED),
        Case("a word where a number is declared", write("", [("add", {"a": "many"})]),
             Outcome(calls=(Call("add", {"a": "many"}),))),
        Case("Python's literals",
             "<tool_call>\n<function=query>\n<parameter=filter>\n{'a': True, 'b': None}\n"
             "</parameter>\n</function>\n</tool_call>",
             Outcome(calls=(Call("query", {"filter": {"a": True, "b": None}}),)),
             vllm="gives a string where an object is declared"),
        Case("no end of the call", "<tool_call>\n<function=now>\n</function>",
             Outcome(calls=(Call("now", {}),))),
        Case("values on the markers' lines",
             "<tool_call>\n<function=add>\n<parameter=a>1</parameter>\n"
             "<parameter=label>x</parameter>\n</function>\n</tool_call>",
             Outcome(calls=(Call("add", {"a": 1, "label": "x"}),))),
        Case("no white space",
             "<tool_call><function=add><parameter=a>1</parameter></function></tool_call>",
             Outcome(calls=(Call("add", {"a": 1}),))),
        Case("no start of the call",
             "I do.\n<function=add>\n<parameter=a>\n1\n</parameter>\n</function>\n</tool_call>",
             Outcome(None, "I do.", (Call("add", {"a": 1}),))),
        Case("two functions in one call",
             "<tool_call>\n<function=now>\n</function>\n<function=add>\n<parameter=a>\n1\n"
             "</parameter>\n</function>\n</tool_call>",
             Outcome(calls=(Call("now", {}), Call("add", {"a": 1})))),
        Case("an object that does not end",
             '<tool_call>\n<function=query>\n<parameter=filter>\n{"a": "x\ny\n</parameter>\n'
             "</function>\n</tool_call>",
             Outcome(calls=(Call("query", '{"filter": {"a": "x\\ny'),)), unfinished=True,
             vllm="gives a string where an object is declared"),
        Case("words between functions",
             "<tool_call>\n<function=now>\n</function>\nand\n<function=now>\n</function>\n"
             "</tool_call>",
             Outcome(calls=(Call("now", {}), Call("now", {})))),
        Case("no end of the first function",
             "<tool_call>\n<function=add>\n<parameter=a>\n1\n</parameter>\n<function=now>\n"
             "</function>\n</tool_call>",
             Outcome(calls=(Call("add", {"a": 1}), Call("now", {}))), vllm="loses the second call"),
        Case("no end of the first call",
             "<tool_call>\n<function=add>\n<parameter=a>\n1\n</parameter>\n<tool_call>\n"
             "<function=now>\n</function>\n</tool_call>",
             Outcome(calls=(Call("add", {"a": 1}), Call("now", {}))), vllm="loses the second call"),
        Case("no end of a parameter",
             "<tool_call>\n<function=write>\n<parameter=path>\na\n<parameter=text>\nx\n"
             "</parameter>\n</function>\n</tool_call>",
             Outcome(calls=(Call("write", {"path": "a", "text": "x"}),))),
        Case("a parameter's marker in a line of a value",
             write("", [("write", {"text": "x <parameter=y> z"})]),
             Outcome(calls=(Call("write", {"text": "x <parameter=y> z"}),)),
             vllm="takes it for the next parameter"),
        Case("a marker that begins no call", "Use <tool_call> to call.",
             Outcome(None, "Use <tool_call> to call."), vllm="drops what follows the marker"),
        Case("cut in the name", "Hi\n<tool_call>\n<function=wri", Outcome(None, "Hi\n"),
             finish="length", vllm="makes a call of half a name"),
        Case("text behind", write("", [("now", {})]) + "\nDone.",
             Outcome(None, "Done.", (Call("now", {}),)), vllm="drops text behind a call"),
        Case("cut in a value", "<tool_call>\n<function=write>\n<parameter=text>\nab",
             Outcome(calls=(Call("write", '{"text": "ab'),)), finish="length",
             vllm="loses the parameter"),
    ),
)  # fmt: skip


FAMILIES = (QWEN3, CODER)
