"""MiniCPM 5: `<function name="f"><param name="p">value</param></function>`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks.samples.sample import Call, Outcome
from tests.parsers.families.family import Case, Family, Invocation, function
from tests.parsers.families.glm45 import read_text


def param(key: str, value: Any) -> str:
    """Write a parameter: in CDATA, if it is more than one plain line."""
    text = read_text(value)
    plain = not isinstance(value, str) or set("<>&\n").isdisjoint(text)
    return f'<param name="{key}">{text if plain else f"<![CDATA[{text}]]>"}</param>'


def write(content: str, calls: Sequence[Invocation]) -> str:
    """Write one function after the other."""
    written = [
        f'<function name="{name}">'
        f"{''.join(param(key, value) for key, value in arguments.items())}</function>"
        for name, arguments in calls
    ]
    return "\n".join(([content] if content else []) + written)


FREE = (function("free"),)
NOW = write("", [("now", {})])

FAMILY = Family(
    "minicpm5",
    write,
    special=("<function", "</function>", "<param", "</param>"),
    vllm="minicpm5",
    vllm_differs={"text and a call": "drops text before a call",
                  "scripts": "drops text before a call"},
    cases=(
        Case("single quotes", "<function name='add'><param name='a'>1</param></function>",
             Outcome(calls=(Call("add", {"a": 1}),))),
        Case("a line for each tag",
             '<function name="add">\n<param name="a">1</param>\n<param name="b">2.5</param>\n'
             '</function>',
             Outcome(calls=(Call("add", {"a": 1, "b": 2.5}),))),
        Case("end markers in CDATA",
             '<function name="write"><param name="text"><![CDATA[a </param> </function> b]]>'
             '</param></function>',
             Outcome(calls=(Call("write", {"text": "a </param> </function> b"}),)),
             vllm="ends the call at the first end marker"),
        Case("white space of a string is its own",
             '<function name="write"><param name="text">  x </param></function>',
             Outcome(calls=(Call("write", {"text": "  x "}),))),
        Case("undeclared parameters are JSON if they can be",
             '<function name="free"><param name="x">3</param><param name="y">z</param></function>',
             Outcome(calls=(Call("free", {"x": 3, "y": "z"}),)), tools=FREE),
        Case("Python's literals",
             '<function name="query"><param name="filter">{\'a\': True, \'b\': None}</param>'
             '</function>',
             Outcome(calls=(Call("query", {"filter": {"a": True, "b": None}}),))),
        Case("no end of the call", '<function name="add"><param name="a">1</param>',
             Outcome(calls=(Call("add", {"a": 1}),)), vllm="gives the markup as content"),
        Case("text behind", f"{NOW}\nDone.", Outcome(None, "Done.", (Call("now", {}),)),
             vllm="drops text behind a call"),
        Case("a marker that begins no call", "Write <functional> code.",
             Outcome(None, "Write <functional> code.")),
        Case("cut in the name", 'Hi\n<function name="wri', Outcome(None, "Hi\n"), finish="length",
             vllm="gives the markup as content"),
        Case("cut in a value", '<function name="write"><param name="text">ab',
             Outcome(calls=(Call("write", '{"text": "ab'),)), finish="length",
             vllm="gives the markup as content"),
    ),
)  # fmt: skip
