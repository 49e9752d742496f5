"""Llama 4 and others that call as Python does: `[f(a=1), g()]`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks.samples.sample import Call, Outcome
from tests.parsers.families.family import Case, Family, Invocation, function


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

FAMILY = Family(
    "pythonic",
    write,
    markers=("<|python_start|>", "<|python_end|>"),
    leaves_out=dict.fromkeys(("text and a call", "scripts"), "its models are told never to mix text and calls, so a list behind text is text"),
    vllm="llama4_pythonic",
    cases=(
        Case("scripts in a call", write("", [("write", {"path": "Münster", "text": "你好 👋🏽 naïve Ω é"})]),
             Outcome(calls=(Call("write", {"path": "Münster", "text": "你好 👋🏽 naïve Ω é"}),))),
        Case("double quotes", '[write(path="a", text="hi")]', Outcome(calls=(HI,))),
        Case("white space everywhere", "[ write( path = 'a' ,\n text = 'hi' ) ]", Outcome(calls=(HI,)),
             vllm="wants the first name right behind the bracket and gives the call as text"),
        Case("white space in front", "\n[write(path='a', text='hi')]", Outcome(calls=(HI,)),
             vllm="wants the bracket first and gives the call as text"),
        Case("its tokens around the list", f"<|python_start|>[{HI_CALL}]<|python_end|>", Outcome(calls=(HI,))),
        Case("text, then its tokens", f"I write.<|python_start|>[{HI_CALL}]<|python_end|>", Outcome(None, "I write.", (HI,)),
             vllm="looks for the first token at the beginning only and gives all of it as text"),
        Case("JSON's words", "[add(a=1, exact=true, label=null)]", Outcome(calls=(Call("add", {"a": 1, "exact": True, "label": None}),))),
        Case("a tuple", "[query(tags=('x', 'y'))]", Outcome(calls=(Call("query", {"tags": ["x", "y"]}),))),
        Case("a trailing comma", f"[{HI_CALL},]", Outcome(calls=(HI,)), vllm="gives the call as text"),
        Case("escapes", r"[write(path='a\tb', text='it\'s \x41\u00e9\n')]", Outcome(calls=(Call("write", {"path": "a\tb", "text": "it's Aé\n"}),))),
        Case("a line break in a string", "[write(path='a', text='x\ny')]", Outcome(calls=(Call("write", {"path": "a", "text": "x\ny"}),)),
             vllm="gives the call as text, since Python wants it escaped"),
        Case("a positional argument", "[write('a', text='hi')]", Outcome(calls=(HI,)), vllm="gives the call as text"),
        Case("a reserved word", "[now(from='x')]", Outcome(calls=(Call("now", {"from": "x"}),)), vllm="gives the call as text, since it is no Python"),
        Case("brackets and calls in a string", "[write(path='a', text='[now()] )]')]", Outcome(calls=(Call("write", {"path": "a", "text": "[now()] )]"}),))),
        Case("dots and dashes in names", "[weather.today(), get-time()]", Outcome(calls=(Call("weather.today", {}), Call("get-time", {}))), tools=ECHO,
             vllm="takes no name with a dash"),
        Case("text behind", f"[{HI_CALL}] Done.", Outcome(None, "Done.", (HI,)), vllm="gives all of it as text"),
        Case("a list in text", "See [now()].", Outcome(None, "See [now()].")),
        Case("a link", "[now](https://x.y) says so.", Outcome(None, "[now](https://x.y) says so.")),
        Case("a list of words", "[a, b]", Outcome(None, "[a, b]")),
        Case("a function that is not declared", "[len(x=1)]", Outcome(None, "[len(x=1)]"), vllm="calls it"),
        Case("no closing bracket", f"[{HI_CALL}", Outcome(calls=(HI,)), vllm="gives the call as text"),
        Case("cut in a string", "[write(path='a', text='h", Outcome(calls=(Call("write", '{"path": "a", "text": "h'),)), finish="length", vllm="gives the call as text"),
        Case("cut in the second call", f"[{HI_CALL}, no", Outcome(calls=(HI,)), finish="length", vllm="gives the calls as text"),
    ),
)  # fmt: skip
