"""MiniMax M3: `<invoke name="f"><key>value</key></invoke>`, a sigil in front of every tag; `<mm:think>...</mm:think>`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks.samples.sample import Call, Outcome
from tests.parsers.families.family import Case, Family, Invocation, Tags, function

S = "]<]minimax[>["


def text_of(value: Any) -> str:
    """Return a value as elements: objects by their keys, lists as items, JSON's words for the rest."""
    if isinstance(value, dict):
        return "".join(element(key, part) for key, part in value.items())
    if isinstance(value, list):
        return "".join(element("item", part) for part in value)
    if isinstance(value, bool):
        return str(value).lower()
    return "null" if value is None else str(value)


def element(key: str, value: Any) -> str:
    return f"{S}<{key}>{text_of(value)}{S}</{key}>"


def write(content: str, calls: Sequence[Invocation]) -> str:
    """Write as vLLM's and other servers' descriptions of the format have it."""
    if not calls:
        return content
    invoked = "".join(
        f'{S}<invoke name="{name}">{"".join(element(key, value) for key, value in arguments.items())}{S}</invoke>\n'
        for name, arguments in calls
    )
    return f"{content}{S}<tool_call>\n{invoked}{S}</tool_call>"


def invoke(body: str, name: str = "write") -> str:
    return f'{S}<tool_call>\n{S}<invoke name="{name}">{body}{S}</invoke>\n{S}</tool_call>'


NOW = write("", [("now", {})])
DEEP = (
    function(
        "deep",
        rows={
            "type": "array",
            "items": {"type": "object", "properties": {"n": {"type": "string"}}},
        },
    ),
)
FREE = (function("free"),)

FAMILY = Family(
    "minimax_m3",
    write,
    reasoning_parser="minimax_m3",
    tags=Tags("<mm:think>", "</mm:think>", prompt_open="<mm:think>", prompt_closed="</mm:think>"),
    markers=("<mm:think>", "</mm:think>"),
    special=(S,),
    # vLLM's parser is a Rust module that its wheels lack.
    vllm=None,
    leaves_out={
        "nested": "an empty object and an empty list are the same, unless they are declared",
        "lists": "an item that looks like a list is one, unless it is declared",
    },
    cases=(
        Case("nested elements", write("", [("query", {"filter": {"a": {"b": [1, {"c": None}]}}, "limit": 3})]),
             Outcome(calls=(Call("query", {"filter": {"a": {"b": [1, {"c": None}]}}, "limit": 3}),))),
        Case("the schema of a list's items", write("", [("deep", {"rows": [{"n": "1"}, {"n": "true"}]})]),
             Outcome(calls=(Call("deep", {"rows": [{"n": "1"}, {"n": "true"}]}),)), tools=DEEP),
        Case("declared but empty", write("", [("query", {"filter": {}, "tags": []})]), Outcome(calls=(Call("query", {"filter": {}, "tags": []}),))),
        Case("JSON in an element", invoke(element("filter", '{"a": [1]}'), "query"), Outcome(calls=(Call("query", {"filter": {"a": [1]}}),))),
        Case("undeclared values are JSON or strings", write("", [("free", {"x": 3, "y": "word", "z": "[1"})]),
             Outcome(calls=(Call("free", {"x": 3, "y": "word", "z": [1]}),)), tools=FREE),
        Case("end tags without the sigil", invoke(f"{S}<path>a</path>{S}<text>hi</text>"), Outcome(calls=(Call("write", {"path": "a", "text": "hi"}),))),
        Case("line breaks between elements", invoke(f"\n{element('path', 'a')}\n{element('text', 'x')}\n"), Outcome(calls=(Call("write", {"path": "a", "text": "x"}),))),
        Case("a tag in the midst of text", invoke(f"{S}<text>a {S}<b>c{S}</b> d{S}</text>"), Outcome(calls=(Call("write", {"text": f"a {S}<b>c{S}</b> d"}),))),
        Case("white space of a string is its own", invoke(element("text", "\n x \n")), Outcome(calls=(Call("write", {"text": "\n x \n"}),))),
        Case("an end tag of nothing", invoke(f"{element('path', 'a')}{S}</x>{element('text', 'b')}"), Outcome(calls=(Call("write", {"path": "a", "text": "b"}),))),
        Case("an element that does not end", f'{S}<tool_call>{S}<invoke name="write">{S}<text>ab', Outcome(calls=(Call("write", {"text": "ab"}),))),
        Case("cut in a value", f'{S}<tool_call>{S}<invoke name="write">{S}<text>ab', Outcome(calls=(Call("write", '{"text": "ab'),)), finish="length"),
        Case("text behind", f"{NOW}\nDone.", Outcome(None, "Done.", (Call("now", {}),))),
        Case("a marker that begins no call", f"Use {S}<tool_call> to call.", Outcome(None, f"Use {S}<tool_call> to call.")),
        Case("reasoning and a call", f"I look.</mm:think>It is{NOW}", Outcome("I look.", "It is", (Call("now", {}),)), prompt="<|im_start|>assistant\n<mm:think>"),
        Case("the end of reasoning at the beginning", "</mm:think>Hi.", Outcome(None, "Hi."), tools=()),
    ),
)  # fmt: skip
