"""Kimi K3: elements.

`<|open|>call tool="f" index="1"<|sep|><|open|>argument key="p" type="string"<|sep|>...`
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from benchmarks.samples.sample import Call, Outcome
from tests.parsers.families.family import Case, Family, Invocation, Tags, function

TYPES = {
    str: "string",
    bool: "boolean",
    int: "number",
    float: "number",
    type(None): "null",
    dict: "object",
    list: "array",
}
RESPONSE = "<|open|>response<|sep|>"


def element(head: str, inside: str) -> str:
    """Write an element."""
    return f"<|open|>{head}<|sep|>{inside}<|close|>{head.partition(' ')[0]}<|sep|>"


def argument(key: str, value: Any) -> str:
    """Write an argument."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return element(f'argument key="{key}" type="{TYPES[type(value)]}"', text)


def write(content: str, calls: Sequence[Invocation]) -> str:
    """Write as Kimi K3's encoding does: a channel for the answer, another for all calls."""
    written = [
        element(
            f'call tool="{name}" index="{index}"',
            "".join(argument(key, value) for key, value in arguments.items()),
        )
        for index, (name, arguments) in enumerate(calls, start=1)
    ]
    return (element("response", content) if content else "") + (
        element("tools", "".join(written)) if calls else ""
    )


FREE = (function("free"),)
NOW = write("", [("now", {})])
HALF = (
    '<|open|>tools<|sep|><|open|>call tool="write" index="1"<|sep|>'
    '<|open|>argument key="text" type="string"<|sep|>ab'
)

FAMILY = Family(
    "kimi_k3",
    write,
    special=("<|open|>", "<|close|>", "<|sep|>"),
    reasoning_parser="kimi_k3",
    tags=Tags(
        "<|open|>think<|sep|>",
        f"<|close|>think<|sep|>{RESPONSE}",
        prompt_open="<|open|>think<|sep|>",
        prompt_closed=RESPONSE,
    ),
    think=lambda text: element("think", text),
    vllm="kimi_k3",
    cases=(
        Case("a whole message", write("I look.", [("now", {})]) + "<|close|>message<|sep|>",
             Outcome(None, "I look.", (Call("now", {}),))),
        Case("an answer alone", f"{element('response', 'Hi.')}<|close|>message<|sep|>",
             Outcome(None, "Hi.")),
        Case("reasoning, text and a call",
             element("think", "I see.") + write("I look.", [("now", {})]),
             Outcome("I see.", "I look.", (Call("now", {}),))),
        Case("reasoning that a call ends", f"I see.{NOW}",
             Outcome("I see.", None, (Call("now", {}),)),
             prompt="<|im_start|>assistant\n<|open|>think<|sep|>"),
        Case("the answer's head in the prompt", f"I look.<|close|>response<|sep|>{NOW}",
             Outcome(None, "I look.", (Call("now", {}),)),
             prompt=f"<|im_start|>assistant\n{RESPONSE}"),
        Case("undeclared parameters are what they say",
             write("", [("free", {"x": "3", "y": 3, "z": [None]})]),
             Outcome(calls=(Call("free", {"x": "3", "y": 3, "z": [None]}),)), tools=FREE),
        Case("no JSON where it is announced",
             element("tools",
                     element('call tool="add" index="1"',
                             element('argument key="a" type="integer"', "many"))),
             Outcome(calls=(Call("add", {"a": "many"}),))),
        Case("all arguments at once",
             element("tools",
                     element('call tool="write" index="1"',
                             element('json type="object"', '{"text": "hi"}'))),
             Outcome(calls=(Call("write", {"text": "hi"}),)), vllm="loses the arguments"),
        Case("white space of a string is its own", write("", [("write", {"text": "\n x \n"})]),
             Outcome(calls=(Call("write", {"text": "\n x \n"}),))),
        Case("words of the syntax in a value",
             write("", [("write", {"text": 'argument call key="x" </response>'})]),
             Outcome(calls=(Call("write", {"text": 'argument call key="x" </response>'}),))),
        Case("elements in a value",
             write("", [("write", {"path": "<|close|>call<|sep|>",
                                   "text": "a <|open|>think<|sep|>b<|close|>think<|sep|> c"})]),
             Outcome(calls=(Call("write", {"path": "<|close|>call<|sep|>",
                                           "text": "a <|open|>think<|sep|>b<|close|>think<|sep|> c"}
                                 ),)),
             vllm="loses the parameters"),
        Case("spaces around the elements' names",
             write("I look.", [("write", {"text": "hi"})]).replace("<|sep|>", " <|sep|>")
             .replace("<|open|>", "<|open|> ").replace("<|close|>", "<|close|> "),
             Outcome(None, "I look.", (Call("write", {"text": "hi"}),))),
        Case("calls inside reasoning", f"<|open|>think<|sep|>I see.{NOW} So.<|close|>think<|sep|>"
             f"{element('response', 'Done.')}",
             Outcome("I see. So.", "Done.", (Call("now", {}),))),
        Case("an end without a name in a call",
             write("", [("write", {"path": "a", "text": "b"})]).replace(
                 '<|sep|><|open|>argument key="text"',
                 '<|sep|><|close|><|open|>argument key="text"'),
             Outcome(calls=(Call("write", {"path": "a", "text": "b"}),))),
        Case("an element that is not known",
             f"{RESPONSE}a<|open|>note<|sep|>b<|close|>note<|sep|>c", Outcome(None, "abc"),
             vllm="shows the element"),
        Case("words after a marker",
             f'{RESPONSE}The "<|open|>call" marker.<|close|>response<|sep|>{NOW}',
             Outcome(None, 'The "<|open|>call" marker.', (Call("now", {}),))),
        Case("a function named as a channel", write("", [("think", {"response": "x"})]),
             Outcome(calls=(Call("think", {"response": "x"}),)),
             tools=(function("think", response="string"),)),
        Case("no end of the calls",
             element("response", "Hi.") + NOW.removesuffix("<|close|>tools<|sep|>"),
             Outcome(None, "Hi.", (Call("now", {}),))),
        Case("two channels of calls", NOW + NOW, Outcome(calls=(Call("now", {}), Call("now", {}))),
             vllm="reads the first"),
        Case("text behind", f"{NOW}{element('response', 'Done.')}",
             Outcome(None, "Done.", (Call("now", {}),))),
        Case("cut in a call's head", '<|open|>tools<|sep|><|open|>call tool="wri', Outcome(),
             finish="length"),
        Case("cut in a value", HALF, Outcome(calls=(Call("write", '{"text": "ab'),)),
             finish="length", vllm="loses the call"),
        Case("cut in an answer", f"{RESPONSE}Hi<|close|>resp", Outcome(None, "Hi"), finish="length",
             vllm="shows the half marker"),
    ),
)  # fmt: skip
