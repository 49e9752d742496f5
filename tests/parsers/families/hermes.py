"""Hermes 2 Pro, Qwen 2.5 and 3: `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`.

Nemotron's models by DeciLM write arrays of such objects.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from benchmarks.samples.sample import Call, Outcome
from tests.parsers.families.family import Case, Family, Invocation
from tests.parsers.families.json_objects import call_array, json_cases


def write(content: str, calls: Sequence[Invocation]) -> str:
    """Write as the chat templates of Hermes 3 and Qwen 2.5 do."""
    written = [
        json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False)
        for name, arguments in calls
    ]
    written = [f"<tool_call>\n{call}\n</tool_call>" for call in written]
    return "\n".join(([content] if content else []) + written)


HI = Call("write", {"path": "a", "text": "hi"})
HI_JSON = '{"path": "a", "text": "hi"}'
PROSE = '<tool_call>{"name": "now", "arguments": "not a dict"}'

IN_CONTENT = "reads no other tags"


def in_tools(calls: Sequence[Invocation]) -> str:
    """Write as Qwen 2.5 Coder does (vllm-project/vllm#10952 and #32926)."""
    return write("", calls).replace("tool_call>", "tools>")


def tools_cases() -> Iterator[Case]:
    """Yield calls between the tags of the prompt's list, and lists of functions, which are none."""
    calls: list[Invocation] = [
        ("write", {"path": "a", "text": "</tools> {}"}),
        ("query", {"filter": {"a": [1, {"b": "c"}]}, "limit": 3}),
        ("now", {}),
    ]
    called = tuple(Call(*call) for call in calls)
    yield Case("calls in other tags", in_tools(calls), Outcome(calls=called), vllm=IN_CONTENT)
    yield Case(
        "other tags around an array",
        f"<tools>\n{call_array(calls)}\n</tools>",
        Outcome(calls=called),
        vllm=IN_CONTENT,
    )
    yield Case(
        "text around calls in other tags",
        f"First:\n\n{in_tools(calls[:1])}\n\nNext:\n\n{in_tools(calls[2:])}\nDone.",
        Outcome(None, "First:\n\n\n\nNext:\n\n\nDone.", (called[0], called[2])),
        vllm=IN_CONTENT,
    )
    yield Case(
        "no end of other tags",
        in_tools(calls[:1]).removesuffix("</tools>"),
        Outcome(calls=called[:1]),
        vllm=IN_CONTENT,
    )
    schema = {"type": "object", "properties": {"path": {"type": "string"}}}
    function = {"name": "write", "description": "Writes.", "parameters": schema}
    for number, text in enumerate(
        (
            json.dumps({"type": "function", "function": function}),
            json.dumps(function),
            json.dumps({"name": "write", "parameters": schema}),
            '{"name": "other", "arguments": {"x": 1}}',
            "are listed",
        )
    ):
        listed = f"These are my <tools>\n{text}\n</tools>."
        yield Case(f"no calls {number} in other tags", listed, Outcome(None, listed))  # fmt: skip
    for other in ("<tools>", "</tools>", in_tools(calls)):
        yield Case(f"a value with {other[:8]}", write("", [("write", {"text": other})]),
                   Outcome(calls=(Call("write", {"text": other}),)))  # fmt: skip


HERMES = Family(
    "hermes",
    write,
    markers=("<tool_call>", "</tool_call>"),
    vllm="hermes",
    cases=(
        *tools_cases(),
        Case("end marker in a string",
             '<tool_call>\n{"name": "write", "arguments": {"text": "a </tool_call> b"}}\n'
             '</tool_call>',
             Outcome(calls=(Call("write", {"text": "a </tool_call> b"}),)),
             vllm="ends the call at the first end marker, inside the string"),
        Case("arguments first",
             f'<tool_call>\n{{"arguments": {HI_JSON}, "name": "write"}}\n</tool_call>',
             Outcome(calls=(HI,))),
        Case("no white space", f'<tool_call>{{"name":"write","arguments":{HI_JSON}}}</tool_call>',
             Outcome(calls=(HI,))),
        Case("no end marker", f'<tool_call>\n{{"name": "write", "arguments": {HI_JSON}}}',
             Outcome(calls=(HI,))),
        Case("no arguments key", '<tool_call>\n{"name": "now"}\n</tool_call>',
             Outcome(calls=(Call("now", {}),)),
             vllm="wants the key and gives the markup as content"),
        Case("null arguments", '<tool_call>\n{"name": "now", "arguments": null}\n</tool_call>',
             Outcome(calls=(Call("now", {}),)), vllm="gives the string null, which is no object"),
        Case("arguments in a string",
             '<tool_call>\n{"name": "write", "arguments": "{\\"path\\": \\"a\\", \\"text\\": '
             '\\"hi\\"}"}\n</tool_call>',
             Outcome(calls=(HI,)), vllm="quotes the string once more"),
        Case("a brace missing",
             f'<tool_call>\n{{"name": "write", "arguments": {HI_JSON}\n</tool_call>',
             Outcome(calls=(HI,)), vllm="gives the markup as content"),
        Case("text behind",
             f'<tool_call>\n{{"name": "write", "arguments": {HI_JSON}}}\n</tool_call>\nDone.',
             Outcome(None, "Done.", (HI,)), vllm="drops text behind a call"),
        Case("arguments twice",
             '<tool_call>{"name": "now", "arguments": {"a": 1}, "parameters": {"b": 2}}'
             "</tool_call>",
             Outcome(calls=(Call("now", {"a": 1}),))),
        Case("arguments that are prose", PROSE, Outcome(None, PROSE),
             vllm="calls with a string, which is no object"),
        Case("an empty name", '<tool_call>{"name": "", "arguments": {}} it',
             Outcome(None, '<tool_call>{"name": "", "arguments": {}} it')),
        Case("a marker that begins no call", "Use <tool_call> to call.",
             Outcome(None, "Use <tool_call> to call.")),
        Case("cut in the name", 'Hi\n<tool_call>\n{"name": "wri', Outcome(None, "Hi\n"),
             finish="length", vllm="gives the markup as content"),
        Case("cut in the arguments", '<tool_call>\n{"name": "write", "arguments": {"path": "a',
             Outcome(calls=(Call("write", '{"path": "a'),)), finish="length",
             vllm="gives the markup as content"),
    ),
)  # fmt: skip


def write_array(content: str, calls: Sequence[Invocation]) -> str:
    """Write as the chat template of Llama-3_3-Nemotron-Super-49B-v1 asks for."""
    return content + (f"<TOOLCALL>{call_array(calls)}</TOOLCALL>" if calls else "")


NOW, NOW_CALL = write_array("", [("now", {})]), Call("now", {})

NEMOTRON_DECI = Family(
    "nemotron_deci",
    write_array,
    cases=(
        *json_cases(lambda call: f"<TOOLCALL>[{call}]</TOOLCALL>", end="</TOOLCALL>"),
        Case("one object", '<TOOLCALL>{"name": "now", "arguments": {}}</TOOLCALL>',
             Outcome(calls=(NOW_CALL,))),
        Case("no end marker", NOW.removesuffix("</TOOLCALL>"), Outcome(calls=(NOW_CALL,))),
        Case("text behind", f"{NOW}\nDone.", Outcome(None, "Done.", (NOW_CALL,))),
        Case("a marker that begins no call", "Use <TOOLCALL> to call.",
             Outcome(None, "Use <TOOLCALL> to call.")),
        Case("cut in the arguments", '<TOOLCALL>[{"name": "write", "arguments": {"path": "a',
             Outcome(calls=(Call("write", '{"path": "a'),)), finish="length"),
    ),
)  # fmt: skip

FAMILIES = (HERMES, NEMOTRON_DECI)
