"""Calls as Python writes them: Llama 4 and others, Olmo 3 and LFM 2."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from benchmarks.samples.sample import Call, Outcome
from tests.parsers.families.family import Case, Family, Invocation, Tags, function


def call(name: str, arguments: dict[str, Any]) -> str:
    """Return a call with keyword arguments."""
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})"


def write(content: str, calls: Sequence[Invocation]) -> str:
    """Write as Llama 4 is told to: calls or text, never both."""
    return f"[{', '.join(call(*invocation) for invocation in calls)}]" if calls else content


HI = Call("write", {"path": "a", "text": "hi"})
HI_CALL = "write(path='a', text='hi')"
NOW = Call("now", {})
ECHO = (*(function(name) for name in ("weather.today", "get-time")),)

LLAMA4 = Family(
    "pythonic",
    write,
    markers=("<|python_start|>", "<|python_end|>"),
    leaves_out=dict.fromkeys(("text and a call", "scripts"),
                             "its models are told never to mix text and calls, so a list behind "
                             "text is text"),
    vllm="llama4_pythonic",
    cases=(
        Case("scripts in a call",
             write("", [("write", {"path": "Münster", "text": "你好 👋🏽 naïve Ω é"})]),
             Outcome(calls=(Call("write", {"path": "Münster", "text": "你好 👋🏽 naïve Ω é"}),))),
        Case("double quotes", '[write(path="a", text="hi")]', Outcome(calls=(HI,))),
        Case("white space everywhere", "[ write( path = 'a' ,\n text = 'hi' ) ]",
             Outcome(calls=(HI,)),
             vllm="wants the first name right behind the bracket and gives the call as text"),
        Case("white space in front", "\n[write(path='a', text='hi')]", Outcome(calls=(HI,)),
             vllm="wants the bracket first and gives the call as text"),
        Case("its tokens around the list", f"<|python_start|>[{HI_CALL}]<|python_end|>",
             Outcome(calls=(HI,))),
        Case("text, then its tokens", f"I write.<|python_start|>[{HI_CALL}]<|python_end|>",
             Outcome(None, "I write.", (HI,)),
             vllm="looks for the first token at the beginning only and gives all of it as text"),
        Case("JSON's words", "[add(a=1, exact=true, label=null)]",
             Outcome(calls=(Call("add", {"a": 1, "exact": True, "label": None}),))),
        Case("a tuple", "[query(tags=('x', 'y'))]",
             Outcome(calls=(Call("query", {"tags": ["x", "y"]}),))),
        Case("a trailing comma", f"[{HI_CALL},]", Outcome(calls=(HI,)),
             vllm="gives the call as text"),
        Case("escapes", r"[write(path='a\tb', text='it\'s \x41\u00e9\n')]",
             Outcome(calls=(Call("write", {"path": "a\tb", "text": "it's Aé\n"}),))),
        Case("a line break in a string", "[write(path='a', text='x\ny')]",
             Outcome(calls=(Call("write", {"path": "a", "text": "x\ny"}),)),
             vllm="gives the call as text, since Python wants it escaped"),
        Case("triple quotes", """[write(path='a', text='''it's "x"\nand''')]""",
             Outcome(calls=(Call("write", {"path": "a", "text": 'it\'s "x"\nand'}),))),
        Case("adjacent and raw strings", r"""[write(path='C:' r'\n', text=("a" 'b'))]""",
             Outcome(calls=(Call("write", {"path": r"C:\n", "text": "ab"}),))),
        Case("a set", "[query(tags={'x', 'y'})]",
             Outcome(calls=(Call("query", {"tags": ["x", "y"]}),))),
        Case("an expression", "[add(a=1 + 2)]", Outcome(None, "[add(a=1 + 2)]")),
        Case("an f-string", "[write(path=f'{x}')]", Outcome(None, "[write(path=f'{x}')]")),
        Case("a name behind a literal", "[write(path='a', text=name)]",
             Outcome(calls=(Call("write", {"path": "a", "text": "name"}),)),
             vllm="gives the call as text, whose name we have sent"),
        Case("a positional argument", "[write('a', text='hi')]", Outcome(calls=(HI,)),
             vllm="gives the call as text"),
        Case("a reserved word", "[now(from='x')]", Outcome(calls=(Call("now", {"from": "x"}),)),
             vllm="gives the call as text, since it is no Python"),
        Case("brackets and calls in a string", "[write(path='a', text='[now()] )]')]",
             Outcome(calls=(Call("write", {"path": "a", "text": "[now()] )]"}),))),
        Case("dots and dashes in names", "[weather.today(), get-time()]",
             Outcome(calls=(Call("weather.today", {}), Call("get-time", {}))), tools=ECHO,
             vllm="takes no name with a dash"),
        Case("text behind", f"[{HI_CALL}] Done.", Outcome(None, "Done.", (HI,)),
             vllm="gives all of it as text"),
        Case("a list in text", "See [now()].", Outcome(None, "See [now()].")),
        Case("a link", "[now](https://x.y) says so.", Outcome(None, "[now](https://x.y) says so.")),
        Case("a list of words", "[a, b]", Outcome(None, "[a, b]")),
        Case("a function that is not declared", "[len(x=1)]", Outcome(None, "[len(x=1)]"),
             vllm="calls it"),
        Case("no closing bracket", f"[{HI_CALL}", Outcome(calls=(HI,)),
             vllm="gives the call as text"),
        Case("cut in a string", "[write(path='a', text='h",
             Outcome(calls=(Call("write", '{"path": "a", "text": "h'),)), finish="length",
             vllm="gives the call as text"),
        Case("cut in the second call", f"[{HI_CALL}, no", Outcome(calls=(HI,)), finish="length",
             vllm="gives the calls as text"),
    ),
)  # fmt: skip


def parse_value(value: Any) -> str:
    """Return strings in single quotes, the rest as JSON.

    Unlike the template, it escapes what would end a string.
    """
    return repr(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def olmo_call(name: str, arguments: dict[str, Any]) -> str:
    """Return a call with keyword arguments."""
    return f"{name}({', '.join(f'{key}={parse_value(value)}' for key, value in arguments.items())})"


def write_olmo(content: str, calls: Sequence[Invocation]) -> str:
    """Write as vLLM's chat template for Olmo 3 does."""
    lines = "\n".join(olmo_call(*invocation) for invocation in calls)
    return "\n".join(
        ([content] if content else [])
        + ([f"<function_calls>\n{lines}\n</function_calls>"] if calls else [])
    )


LOSES_TEXT = "drops the text in front of calls"

OLMO3 = Family(
    "olmo3",
    write_olmo,
    reasoning_parser="olmo3",
    tags=Tags(),
    vllm="olmo3",
    vllm_differs={"text and a call": LOSES_TEXT, "scripts": LOSES_TEXT},
    cases=(
        Case("no line breaks around the calls", f"<function_calls>{HI_CALL}</function_calls>",
             Outcome(calls=(HI,))),
        Case("two calls on one line", f"<function_calls>{HI_CALL}, now()</function_calls>",
             Outcome(calls=(HI, NOW))),
        Case("two calls with a comma at the line's end",
             f"<function_calls>\n{HI_CALL},\nnow()\n</function_calls>", Outcome(calls=(HI, NOW)),
             vllm="puts a second comma behind each line and gives the markup as text"),
        Case("two blocks",
             f"<function_calls>{HI_CALL}</function_calls>\n<function_calls>now()</function_calls>",
             Outcome(calls=(HI, NOW)), vllm="loses the second block"),
        Case("double quotes", '<function_calls>write(path="a", text="hi")</function_calls>',
             Outcome(calls=(HI,))),
        Case("Python's words", "<function_calls>add(a=1, exact=True, label=None)</function_calls>",
             Outcome(calls=(Call("add", {"a": 1, "exact": True, "label": None}),))),
        Case("a call over several lines",
             "<function_calls>\nwrite(\n  path='a',\n  text='hi'\n)\n</function_calls>",
             Outcome(calls=(HI,)), vllm="takes each line for a call and gives the markup as text"),
        Case("a line break in a string",
             "<function_calls>write(path='a', text='x\ny')</function_calls>",
             Outcome(calls=(Call("write", {"path": "a", "text": "x\ny"}),)),
             vllm="puts a comma in the string's midst"),
        Case("end marker in a string",
             "<function_calls>write(path='a', text='</function_calls>')</function_calls>",
             Outcome(calls=(Call("write", {"path": "a", "text": "</function_calls>"}),)),
             vllm="ends the calls there and gives all of it as text"),
        Case("no end marker", f"<function_calls>{HI_CALL}", Outcome(calls=(HI,)),
             vllm="gives the markup as text"),
        Case("text behind", f"<function_calls>{HI_CALL}</function_calls>\nDone.",
             Outcome(None, "Done.", (HI,)), vllm="drops text behind calls"),
        Case("calls without tags", HI_CALL, Outcome(None, HI_CALL),
             vllm="takes any answer for calls that reads as such"),
        Case("tags around text", "<function_calls>none needed</function_calls>",
             Outcome(None, "<function_calls>none needed</function_calls>")),
        Case("in a code block", f"```\n<function_calls>{HI_CALL}</function_calls>\n```",
             Outcome(None, f"```\n<function_calls>{HI_CALL}</function_calls>\n```"),
             vllm="takes the example for a call"),
        Case("reasoning and a call",
             f"<think>I write.</think><function_calls>{HI_CALL}</function_calls>",
             Outcome("I write.", None, (HI,))),
        Case("cut in a string", "<function_calls>write(path='a",
             Outcome(calls=(Call("write", '{"path": "a'),)), finish="length",
             vllm="gives the markup as text"),
        Case("cut in the marker", "Hi <function_c", Outcome(None, "Hi "),
             finish="length", vllm="shows half of the marker"),
    ),
)  # fmt: skip


START, END = "<|tool_call_start|>", "<|tool_call_end|>"


def write_lfm2(content: str, calls: Sequence[Invocation]) -> str:
    """Write as the chat template of LFM 2.5 does, with the answer's text in front."""
    written = (
        f"{START}[{', '.join(call(*invocation) for invocation in calls)}]{END}" if calls else ""
    )
    return content + written


HI_JSON = json.dumps({"name": "write", "arguments": HI.arguments})
NO_JSON = "reads Python only and gives the markup as text"

LFM2 = Family(
    "lfm2",
    write_lfm2,
    special=(START, END),
    vllm="lfm2",
    cases=(
        Case("white space around the list", f"{START}\n[{HI_CALL}]\n{END}", Outcome(calls=(HI,))),
        Case("text behind", f"{START}[{HI_CALL}]{END}Writing it.",
             Outcome(None, "Writing it.", (HI,))),
        Case("two sections", f"{START}[{HI_CALL}]{END}{START}[now()]{END}",
             Outcome(calls=(HI, NOW)), vllm="takes the first section only"),
        Case("JSON", f"{START}[{HI_JSON}]{END}", Outcome(calls=(HI,)), vllm=NO_JSON),
        Case("two in JSON", f'{START}[{HI_JSON}, {{"name": "now", "arguments": {{}}}}]{END}',
             Outcome(calls=(HI, NOW)), vllm=NO_JSON),
        Case("one object of JSON", f"{START}{HI_JSON}{END}", Outcome(calls=(HI,)), vllm=NO_JSON),
        Case("indented JSON", f"{START}[\n{HI_JSON}\n]{END}", Outcome(calls=(HI,)), vllm=NO_JSON),
        *(
            Case(f"{space!r} in the list",
                 f"{START}{space}[{space}{HI_JSON}{space},{space}{HI_JSON}{space}]{space}{END}",
                 Outcome(calls=(HI, HI)), vllm=NO_JSON)
            for space in ("  ", "\r\n", "\n\t ")
        ),
        Case("end marker in a string", f"{START}[write(path='a', text='{END}')]{END}",
             Outcome(calls=(Call("write", {"path": "a", "text": END}),)),
             vllm="ends the calls inside the string"),
        Case("a line break in a string", f"{START}[write(path='a', text='x\ny')]{END}",
             Outcome(calls=(Call("write", {"path": "a", "text": "x\ny"}),))),
        Case("quotes inside quotes", f"{START}[write(text='sed -n '360,450p' f', path='a')]{END}",
             Outcome(calls=(Call("write", {"text": "sed -n '360,450p' f", "path": "a"}),)),
             vllm="mends such quotes in a single argument only"),
        Case("quotes inside the last argument", f"{START}[write(text='sed -n '360,450p' f')]{END}",
             Outcome(calls=(Call("write", {"text": "sed -n '360,450p' f"}),))),
        Case("a reserved word", f"{START}[now(from=1)]{END}",
             Outcome(calls=(Call("now", {"from": 1}),))),
        Case("a leading zero", f"{START}[add(a=07)]{END}", Outcome(calls=(Call("add", {"a": 7}),))),
        Case("no call in the list", f"{START}[]{END}", Outcome(None, f"{START}[]"),
             vllm="keeps the end marker, too"),
        Case("no list", f"{START}hello{END}", Outcome(None, f"{START}hello"),
             vllm="keeps the end marker, too"),
        Case("no end marker", f"{START}[{HI_CALL}]", Outcome(calls=(HI,))),
        Case("no closing bracket", f"{START}[{HI_CALL}{END}", Outcome(calls=(HI,)),
             vllm="gives the markup as text"),
        Case("a word behind the list", f"{START}[{HI_CALL}] ok{END}", Outcome(None, "ok", (HI,)),
             vllm="gives the markup as text"),
        Case("cut in a string", f"{START}[write(path='a",
             Outcome(calls=(Call("write", '{"path": "a'),)), finish="length",
             vllm="gives the markup as text"),
        Case("cut in front of the list", f"Hi{START}", Outcome(None, "Hi"), finish="length",
             vllm="gives the markup as text"),
    ),
)  # fmt: skip


FAMILIES = (LLAMA4, OLMO3, LFM2)
