"""MiniMax M2: `<minimax:tool_call><invoke name="f"><parameter name="p">value</parameter></invoke>...`."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.samples.sample import Call, Outcome
from tests.parsers.families.family import Case, Family, Invocation, Tags, function
from tests.parsers.families.glm45 import text_of


def invoke(name: str, arguments: dict[str, object], quote: str = '"') -> str:
    """Write one call."""
    parameters = "".join(
        f"<parameter name={quote}{key}{quote}>{text_of(value)}</parameter>\n"
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

FAMILY = Family(
    "minimax_m2",
    write,
    markers=("<minimax:tool_call>", "</minimax:tool_call>", "<think>", "</think>"),
    reasoning_parser="minimax_m2",
    tags=Tags(prompt_closed=None),
    vllm="minimax_m2",
    cases=(
        Case("reasoning and a call", f"I look.\n</think>\n\nIt is\n{NOW}", Outcome("I look.\n", "It is", (Call("now", {}),)),
             prompt="<|im_start|>assistant\n<think>\n"),
        Case("reasoning that a call ends", f"I look.\n{NOW}", Outcome("I look.\n", None, (Call("now", {}),)), prompt="<|im_start|>assistant\n<think>\n"),
        Case("single quotes", write("", [HI], "'"), Outcome(calls=(Call(*HI),))),
        Case("no quotes", write("", [HI], ""), Outcome(calls=(Call(*HI),))),
        Case("no white space", '<minimax:tool_call><invoke name="add"><parameter name="a">1</parameter></invoke></minimax:tool_call>',
             Outcome(calls=(Call("add", {"a": 1}),))),
        Case("a block for each call", f"{NOW}\n{NOW}", Outcome(calls=(Call("now", {}), Call("now", {})))),
        Case("no block around the call", f"I do.\n{invoke(*HI)}", Outcome(None, "I do.", (Call(*HI),))),
        Case("white space of a string is its own", write("", [("write", {"text": "\n x \n"})]), Outcome(calls=(Call("write", {"text": "\n x \n"}),))),
        Case("end markers in a value", write("", [("write", {"text": "a </minimax:tool_call> b </invoke> c <parameter>"})]),
             Outcome(calls=(Call("write", {"text": "a </minimax:tool_call> b </invoke> c <parameter>"}),)), vllm="loses the parameter"),
        Case("undeclared parameters are strings", write("", [("free", {"x": "3"})]), Outcome(calls=(Call("free", {"x": "3"}),)), tools=FREE),
        Case("Python's literals", write("", [("query", {"filter": "{'a': True}"})]), Outcome(calls=(Call("query", {"filter": {"a": True}}),)),
             vllm="gives a string where an object is declared"),
        Case("no end of the call", '<minimax:tool_call>\n<invoke name="now">\n</invoke>', Outcome(calls=(Call("now", {}),))),
        Case("text behind", f"{NOW}\nDone.", Outcome(None, "Done.", (Call("now", {}),)), vllm="loses text behind a call"),
        Case("a marker that begins no call", "Use <minimax:tool_call> to call.", Outcome(None, "Use <minimax:tool_call> to call."),
             vllm="drops what follows the marker"),
        Case("cut in the name", 'Hi\n<minimax:tool_call>\n<invoke name="wri', Outcome(None, "Hi\n"), finish="length"),
        Case("cut in a value", '<minimax:tool_call>\n<invoke name="write">\n<parameter name="text">ab',
             Outcome(calls=(Call("write", '{"text": "ab'),)), finish="length", vllm="loses the parameter"),
    ),
)  # fmt: skip
