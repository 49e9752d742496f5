"""MiniMax M2 writes parameters between tags, MiniMax M3 nested elements.

M2's reasoning may stay in the content.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks.samples.sample import Call, Outcome
from tests.parsers.families.family import THOUGHTS, Case, Family, Invocation, Tags, function
from tests.parsers.families.glm45 import read_text


def invoke(name: str, arguments: dict[str, object], quote: str = '"') -> str:
    """Write one call."""
    parameters = "".join(
        f"<parameter name={quote}{key}{quote}>{read_text(value)}</parameter>\n"
        for key, value in arguments.items()
    )
    return f"<invoke name={quote}{name}{quote}>\n{parameters}</invoke>\n"


def write(content: str, calls: Sequence[Invocation], quote: str = '"') -> str:
    """Write as the chat template of MiniMax M2 does: all calls in one block."""
    block = "".join(invoke(name, arguments, quote) for name, arguments in calls)
    written = [content] if content else []
    return "\n".join(
        written + ([f"<minimax:tool_call>\n{block}</minimax:tool_call>"] if calls else [])
    )


FREE = (function("free"),)
HI: Invocation = ("write", {"path": "a", "text": "hi"})
NOW = write("", [("now", {})])

M2 = Family(
    "minimax_m2",
    write,
    markers=("<minimax:tool_call>", "</minimax:tool_call>", "<think>", "</think>"),
    reasoning_parser="minimax_m2",
    tags=Tags(prompt_closed=None),
    vllm="minimax_m2",
    cases=(
        Case("reasoning and a call", f"I look.\n</think>\n\nIt is\n{NOW}",
             Outcome("I look.\n", "It is", (Call("now", {}),)),
             prompt="<|im_start|>assistant\n<think>\n"),
        Case("reasoning that a call ends", f"I look.\n{NOW}",
             Outcome("I look.\n", None, (Call("now", {}),)),
             prompt="<|im_start|>assistant\n<think>\n"),
        Case("single quotes", write("", [HI], "'"), Outcome(calls=(Call(*HI),))),
        Case("no quotes", write("", [HI], ""), Outcome(calls=(Call(*HI),))),
        Case("no white space",
             '<minimax:tool_call><invoke name="add"><parameter name="a">1</parameter></invoke>'
             '</minimax:tool_call>',
             Outcome(calls=(Call("add", {"a": 1}),))),
        Case("a block for each call", f"{NOW}\n{NOW}",
             Outcome(calls=(Call("now", {}), Call("now", {})))),
        Case("no block around the call", f"I do.\n{invoke(*HI)}",
             Outcome(None, "I do.", (Call(*HI),))),
        Case("white space of a string is its own", write("", [("write", {"text": "\n x \n"})]),
             Outcome(calls=(Call("write", {"text": "\n x \n"}),))),
        Case("end markers in a value",
             write("", [("write", {"text": "a </minimax:tool_call> b </invoke> c <parameter>"})]),
             Outcome(calls=(Call("write",
                                 {"text": "a </minimax:tool_call> b </invoke> c <parameter>"}),)),
             vllm="loses the parameter"),
        Case("undeclared parameters are strings", write("", [("free", {"x": "3"})]),
             Outcome(calls=(Call("free", {"x": "3"}),)), tools=FREE),
        Case("Python's literals", write("", [("query", {"filter": "{'a': True}"})]),
             Outcome(calls=(Call("query", {"filter": {"a": True}}),)),
             vllm="gives a string where an object is declared"),
        Case("no end of the call", '<minimax:tool_call>\n<invoke name="now">\n</invoke>',
             Outcome(calls=(Call("now", {}),))),
        Case("text behind", f"{NOW}\nDone.", Outcome(None, "Done.", (Call("now", {}),)),
             vllm="loses text behind a call"),
        Case("a marker that begins no call", "Use <minimax:tool_call> to call.",
             Outcome(None, "Use <minimax:tool_call> to call."),
             vllm="drops what follows the marker"),
        Case("cut in the name", 'Hi\n<minimax:tool_call>\n<invoke name="wri', Outcome(None, "Hi\n"),
             finish="length"),
        Case("cut in a value",
             '<minimax:tool_call>\n<invoke name="write">\n<parameter name="text">ab',
             Outcome(calls=(Call("write", '{"text": "ab'),)), finish="length",
             vllm="loses the parameter"),
    ),
)  # fmt: skip


S = "]<]minimax[>["


def write_elements(value: Any) -> str:
    """Return a value as elements: an object by its keys, a list as items, the rest as JSON."""
    if isinstance(value, dict):
        return "".join(element(key, part) for key, part in value.items())
    if isinstance(value, list):
        return "".join(element("item", part) for part in value)
    if isinstance(value, bool):
        return str(value).lower()
    return "null" if value is None else str(value)


def element(key: str, value: Any) -> str:
    return f"{S}<{key}>{write_elements(value)}{S}</{key}>"


def write_m3(content: str, calls: Sequence[Invocation]) -> str:
    """Write as vLLM's and other servers' descriptions of the format have it."""
    if not calls:
        return content
    invoked = "".join(
        f'{S}<invoke name="{name}">'
        f"{''.join(element(key, value) for key, value in arguments.items())}{S}</invoke>\n"
        for name, arguments in calls
    )
    return f"{content}{S}<tool_call>\n{invoked}{S}</tool_call>"


def invoke_m3(body: str, name: str = "write") -> str:
    return f'{S}<tool_call>\n{S}<invoke name="{name}">{body}{S}</invoke>\n{S}</tool_call>'


NOW_M3 = write_m3("", [("now", {})])
DEEP = (
    function(
        "deep",
        rows={
            "type": "array",
            "items": {"type": "object", "properties": {"n": {"type": "string"}}},
        },
    ),
)

PATHS = (
    function(
        "paths",
        **{
            "/v1": "string",
            "item": "string",
            "box": {"type": "object", "properties": {"item": {"type": "string"}}},
        },
    ),
)

M3 = Family(
    "minimax_m3",
    write_m3,
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
        Case("nested elements",
             write_m3("", [("query", {"filter": {"a": {"b": [1, {"c": None}]}}, "limit": 3})]),
             Outcome(calls=(Call("query",
                                 {"filter": {"a": {"b": [1, {"c": None}]}}, "limit": 3}),))),
        Case("the schema of a list's items",
             write_m3("", [("deep", {"rows": [{"n": "1"}, {"n": "true"}]})]),
             Outcome(calls=(Call("deep", {"rows": [{"n": "1"}, {"n": "true"}]}),)), tools=DEEP),
        Case("declared but empty", write_m3("", [("query", {"filter": {}, "tags": []})]),
             Outcome(calls=(Call("query", {"filter": {}, "tags": []}),))),
        Case("JSON in an element", invoke_m3(element("filter", '{"a": [1]}'), "query"),
             Outcome(calls=(Call("query", {"filter": {"a": [1]}}),))),
        Case("a key with a slash in front",
             write_m3("", [("paths", {"/v1": "x", "a/b c": "y"})]),
             Outcome(calls=(Call("paths", {"/v1": "x", "a/b c": "y"}),)), tools=PATHS),
        Case("a key named item", write_m3("", [("paths", {"item": "x", "box": {"item": "y"}})]),
             Outcome(calls=(Call("paths", {"item": "x", "box": {"item": "y"}}),)), tools=PATHS),
        Case("a repeated key",
             invoke_m3("".join(element("tags", tag) for tag in "1b"), "query"),
             Outcome(calls=(Call("query", {"tags": [1, "b"]}),))),
        Case("undeclared values are JSON or strings",
             write_m3("", [("free", {"x": 3, "y": "word", "z": "[1"})]),
             Outcome(calls=(Call("free", {"x": 3, "y": "word", "z": "[1"}),)), tools=FREE),
        Case("end tags without the sigil", invoke_m3(f"{S}<path>a</path>{S}<text>hi</text>"),
             Outcome(calls=(Call("write", {"path": "a", "text": "hi"}),))),
        Case("line breaks between elements",
             invoke_m3(f"\n{element('path', 'a')}\n{element('text', 'x')}\n"),
             Outcome(calls=(Call("write", {"path": "a", "text": "x"}),))),
        Case("a tag in the midst of text", invoke_m3(f"{S}<text>a {S}<b>c{S}</b> d{S}</text>"),
             Outcome(calls=(Call("write", {"text": f"a {S}<b>c{S}</b> d"}),))),
        Case("white space of a string is its own", invoke_m3(element("text", "\n x \n")),
             Outcome(calls=(Call("write", {"text": "\n x \n"}),))),
        Case("an end tag of nothing",
             invoke_m3(f"{element('path', 'a')}{S}</x>{element('text', 'b')}"),
             Outcome(calls=(Call("write", {"path": "a", "text": "b"}),))),
        Case("an element that does not end", f'{S}<tool_call>{S}<invoke name="write">{S}<text>ab',
             Outcome(calls=(Call("write", '{"text": "ab'),)), unfinished=True),
        Case("cut in a value", f'{S}<tool_call>{S}<invoke name="write">{S}<text>ab',
             Outcome(calls=(Call("write", '{"text": "ab'),)), finish="length"),
        Case("text behind", f"{NOW_M3}\nDone.", Outcome(None, "Done.", (Call("now", {}),))),
        Case("a marker that begins no call", f"Use {S}<tool_call> to call.",
             Outcome(None, f"Use {S}<tool_call> to call.")),
        Case("reasoning and a call", f"I look.</mm:think>It is{NOW_M3}",
             Outcome("I look.", "It is", (Call("now", {}),)),
             prompt="<|im_start|>assistant\n<mm:think>"),
        Case("the end of reasoning at the beginning", "</mm:think>Hi.", Outcome(None, "Hi."),
             tools=()),
    ),
)  # fmt: skip


PROMPT = "<|im_start|>assistant\n<think>\n"


def appended(case: str, output: str, prompt: str = PROMPT, finish: str = "stop") -> Case:
    """Return a case whose whole output is content."""
    expected = Outcome(None, f"<think>{output}")
    return Case(case, output, expected, finish=finish, tools=(), prompt=prompt)


APPEND_THINK = Family(
    reasoning_parser="minimax_m2_append_think",
    markers=("<think>", "</think>"),
    cases=(
        *(appended(thought.id, f"{thought.reasoning}\n</think>\n\n{thought.content}",
                   finish=thought.finish) for thought in THOUGHTS),
        appended("the prompt says nothing", "So.</think>Yes.", ""),
        appended("closed by the prompt, too", "Yes.", "<|im_start|>assistant\n<think></think>"),
        appended("the start marker, too", "<think>So.</think>Yes."),
        appended("half a marker at the end", "So.</thi", finish="length"),
        appended("nothing at all", ""),
    ),
)  # fmt: skip

FAMILIES = (M2, M3, APPEND_THINK)
