"""Muse Glimmer: messages to tools.

` to=f<|message|><atem:invoke name="f"><atem:parameter name="p">value</atem:parameter>...<|eom|>`
"""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.samples.sample import Call, Outcome
from tests.parsers.families.family import Case, Family, Invocation, Tags, function
from tests.parsers.families.glm45 import read_text

TURN = "<|start|>assistant"
USER = " to=user<|message|>"


def call(name: str, arguments: dict[str, object]) -> str:
    """Write a message to a tool."""
    parameters = "".join(
        f'<atem:parameter name="{key}">{read_text(value)}</atem:parameter>\n'
        for key, value in arguments.items()
    )
    return (
        f' to={name}<|message|><atem:function_calls>\n<atem:invoke name="{name}">\n'
        f"{parameters}</atem:invoke>\n</atem:function_calls>"
    )


def write(content: str, calls: Sequence[Invocation]) -> str:
    """Write one message for the text and one for each call; the prompt has begun the first."""
    messages = [f"{USER}{content}"] if content else []
    messages += [call(name, arguments) for name, arguments in calls]
    return f"<|eom|>{TURN}".join(messages) + "<|eot|>"


FREE = (function("free"),)
NOW = call("now", {})

FAMILY = Family(
    "muse_glimmer",
    write,
    special=("<|start|>", "<|message|>", "<|eom|>", "<|eot|>"),
    reasoning_parser="muse_glimmer",
    tags=Tags(" to=self<|message|>", f"<|eom|>{TURN}{USER}",
              prompt_open=f"{TURN} to=self<|message|>", prompt_closed=f"{TURN}{USER}"),
    think=lambda text: f" to=self<|message|>{text}<|eom|>{TURN}",
    vllm="muse_glimmer",
    vllm_differs={
        "three of one": "reads JSON where strings are declared",
        "strings that look like other types": "reads JSON where strings are declared",
    },
    cases=(
        Case("reasoning, text and a call",
             f" to=self<|message|>I see.<|eom|>{TURN}{USER}I look.<|eom|>{TURN}{NOW}<|eom|>",
             Outcome("I see.", "I look.", (Call("now", {}),))),
        Case("an update", f" to=commentary<|message|>I look.<|eom|>{TURN}{USER}Done.",
             Outcome(None, "I look.\nDone."), vllm="shows the answer alone"),
        Case("a message to the developer",
             f" to=developer<|message|>No.<|eom|>{TURN}{USER}Done.", Outcome(None, "Done.")),
        Case("a call from the midst of reasoning",
             f" to=self<|message|>I see.{NOW}<|eom|>{TURN} to=self<|message|>So.<|eom|>",
             Outcome("I see. So.", None, (Call("now", {}),))),
        Case("no recipient in reasoning",
             f" to=self<|message|>Set x to=5, and to=y<|eom|>{TURN}{USER}Done.<|eot|>",
             Outcome("Set x to=5, and to=y", "Done.")),
        Case("two messages of reasoning",
             f" to=self<|message|>One.<|eom|>{TURN} to=self<|message|>Two.<|eom|>{TURN}{USER}Done.",
             Outcome("One.\nTwo.", "Done.")),
        Case("reasoning between calls",
             f"{NOW}<|eom|>{TURN} to=self<|message|>So.<|eom|>{TURN}{NOW}<|eom|>",
             Outcome("So.", None, (Call("now", {}), Call("now", {})))),
        Case("an invocation in an answer",
             f'{USER}Write <atem:invoke name="now"></atem:invoke>.<|eot|>',
             Outcome(None, 'Write <atem:invoke name="now"></atem:invoke>.')),
        Case("no head", "Just text.", Outcome(None, "Just text.")),
        Case("a head without a name", "<|message|>Just text.<|eot|>", Outcome(None, "Just text.")),
        Case("two invocations in a message",
             f"{NOW.removesuffix('</atem:function_calls>')}<atem:invoke name=\"now\">\n"
             f"</atem:invoke>\n</atem:function_calls><|eom|>",
             Outcome(calls=(Call("now", {}), Call("now", {})))),
        Case("a name said twice", call("now.now", {}), Outcome(calls=(Call("now", {}),))),
        Case("white space of a string is its own", write("", [("write", {"text": "\n x \n"})]),
             Outcome(calls=(Call("write", {"text": "\n x \n"}),))),
        Case("end markers in a value", write("", [("write", {"text": "a </atem:invoke> b"})]),
             Outcome(calls=(Call("write", {"text": "a </atem:invoke> b"}),)),
             vllm="loses the parameter"),
        Case("strings that look like JSON are written as JSON",
             write("", [("write", {"path": '"42"', "text": '"{\\"a\\": 1}"'})]),
             Outcome(calls=(Call("write", {"path": "42", "text": '{"a": 1}'}),))),
        Case("undeclared parameters are JSON if they can be",
             write("", [("free", {"x": "3", "y": "z"})]),
             Outcome(calls=(Call("free", {"x": 3, "y": "z"}),)), tools=FREE),
        Case("a function whose name begins as a reader's", call("user-list", {}),
             Outcome(calls=(Call("user-list", {}),)), tools=(function("user-list"),)),
        Case("no end of the message", NOW, Outcome(calls=(Call("now", {}),))),
        Case("cut in the name", ' to=write<|message|><atem:function_calls>\n<atem:invoke name="wri',
             Outcome(), finish="length"),
        Case("cut in a value",
             ' to=write<|message|><atem:function_calls>\n<atem:invoke name="write">\n'
             '<atem:parameter name="text">ab',
             Outcome(calls=(Call("write", '{"text": "ab'),)), finish="length",
             vllm="loses the call"),
    ),
)  # fmt: skip
