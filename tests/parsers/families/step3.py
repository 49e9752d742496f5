"""Step 3: steptml invocations.

`<steptml:invoke name="f"><steptml:parameter name="p">value</steptml:parameter></steptml:invoke>`
"""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.samples.sample import Call, Outcome
from tests.parsers.families.family import Case, Family, Invocation, Tags, function
from tests.parsers.families.glm45 import read_text

BEGIN, END = "<｜tool_call_begin｜>function<｜tool_sep｜>", "<｜tool_call_end｜>"


def write(content: str, calls: Sequence[Invocation]) -> str:
    """Write as Step 3 does: all calls in one block."""
    written = []
    for name, arguments in calls:
        parameters = "".join(
            f'<steptml:parameter name="{key}">{read_text(value)}</steptml:parameter>'
            for key, value in arguments.items()
        )
        written.append(f'{BEGIN}<steptml:invoke name="{name}">{parameters}</steptml:invoke>{END}')
    block = "<｜tool_calls_begin｜>" + "\n".join(written) + "<｜tool_calls_end｜>"
    return "\n".join(([content] if content else []) + ([block] if calls else []))


FREE = (function("free"),)
NOW = write("", [("now", {})])
MARKERS = tuple(
    f"<｜tool_{part}｜>" for part in ("calls_begin", "calls_end", "call_begin", "call_end", "sep")
)

FAMILY = Family(
    "step3",
    write,
    markers=("<think>", "</think>"),
    special=MARKERS,
    reasoning_parser="step3",
    tags=Tags(prompt_closed=None),
    vllm="step3",
    vllm_differs={
        "nested": "gives strings where objects are declared",
        "lists": "gives strings where objects and lists are declared",
        "types": "reads a type only where a single one is declared",
        "markup": "loses a parameter with an angle bracket in it",
    },
    cases=(
        Case("reasoning and a call", f"I look.\n</think>\nIt is\n{NOW}",
             Outcome("I look.\n", "It is", (Call("now", {}),)),
             prompt="<|im_start|>assistant\n<think>\n"),
        Case("a call inside reasoning", f"I look.\n{NOW}So.</think>Done.",
             Outcome(f"I look.\n{NOW}So.", "Done."),
             prompt="<|im_start|>assistant\n<think>\n"),
        Case("line breaks in the block",
             f'<｜tool_calls_begin｜>\n{BEGIN}<steptml:invoke name="add">\n'
             f'<steptml:parameter name="a">1</steptml:parameter>\n</steptml:invoke>{END}\n'
             f'<｜tool_calls_end｜>',
             Outcome(calls=(Call("add", {"a": 1}),))),
        Case("a word where a number is declared", write("", [("add", {"a": "many"})]),
             Outcome(calls=(Call("add", {"a": "many"}),))),
        Case("undeclared parameters are strings", write("", [("free", {"x": "3"})]),
             Outcome(calls=(Call("free", {"x": "3"}),)), tools=FREE),
        Case("end markers in a value", write("", [("write", {"text": "a </steptml:invoke> b"})]),
             Outcome(calls=(Call("write", {"text": "a </steptml:invoke> b"}),)),
             vllm="loses a parameter with an angle bracket in it"),
        Case("no kind of call",
             '<｜tool_calls_begin｜><｜tool_call_begin｜>'
             f'<steptml:invoke name="now"></steptml:invoke>{END}<｜tool_calls_end｜>',
             Outcome(calls=(Call("now", {}),)), vllm="wants the separator"),
        Case("words between the separator and the call",
             write("", [("now", {})]).replace("<｜tool_sep｜>", "<｜tool_sep｜>I call now: "),
             Outcome(calls=(Call("now", {}),))),
        Case("words after the separator, and no call",
             write("", [("now", {})]).replace(BEGIN, f"{BEGIN}Or not.{END}{BEGIN}", 1),
             Outcome(None, f"{BEGIN}Or not.", (Call("now", {}),)),
             vllm="gives the markup as content"),
        Case("no end of the first call",
             write("", [("add", {"a": 1}), ("now", {})]).replace(f"</steptml:invoke>{END}", "", 1),
             Outcome(calls=(Call("add", {"a": 1}), Call("now", {}))), vllm="loses the first call"),
        Case("no end of the block",
             f'<｜tool_calls_begin｜>{BEGIN}<steptml:invoke name="now"></steptml:invoke>{END}',
             Outcome(calls=(Call("now", {}),)),
             vllm="wants the end and gives the markup as content"),
        Case("text behind", f"{NOW}\nDone.", Outcome(None, "Done.", (Call("now", {}),))),
        Case("cut in the name", f'Hi\n<｜tool_calls_begin｜>{BEGIN}<steptml:invoke name="wri',
             Outcome(None, "Hi\n"), finish="length", vllm="gives the markup as content"),
        Case("cut in a value",
             f'<｜tool_calls_begin｜>{BEGIN}<steptml:invoke name="write"><steptml:parameter '
             f'name="text">ab',
             Outcome(calls=(Call("write", '{"text": "ab'),)), finish="length",
             vllm="gives the markup as content"),
    ),
)  # fmt: skip
