"""Beam: Harmony's channels around parameters between tags."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.samples.sample import HARMONY_SPECIAL, Call, Outcome
from tests.parsers.families.family import Case, Family, Invocation, Tags, function
from tests.parsers.families.openai import ANALYSIS, FINAL, TURN
from tests.parsers.families.qwen3 import read_text

END = "\n</rfl:parameter>"


def call(name: str, parameters: str, end: str = "<|call|>") -> str:
    """Return a message that calls `name`."""
    return f" to={name}<|channel|>analysis <|constrain|>xml<|message|>{parameters}{end}"


def parameter(key: str, value: object, end: str = END) -> str:
    return f'<rfl:parameter name="{key}">\n{read_text(value)}{end}'


def write(content: str, calls: Sequence[Invocation]) -> str:
    """Write as SGLang's response template of Beam says."""
    messages = [FINAL + content] if content or not calls else []
    messages += [
        call(name, "".join(parameter(*item) for item in arguments.items()), "")
        for name, arguments in calls
    ]
    return f"<|end|>{TURN}".join(messages) + ("<|call|>" if calls else "")


HI = Call("write", {"path": "a", "text": "hi"})

FAMILY = Family(
    "beam",
    write,
    special=(*HARMONY_SPECIAL, END),
    reasoning_parser="beam",
    tags=Tags(ANALYSIS, f"<|end|>{TURN}{FINAL}", prompt_open=None, prompt_closed=None),
    think=lambda text: f"{ANALYSIS}{text}<|end|>{TURN}",
    cases=(
        Case("reasoning, text and a call",
             f"{ANALYSIS}One.<|end|>{TURN}{FINAL}Two.<|end|>{TURN}{write('', [('now', {})])}",
             Outcome("One.", "Two.", (Call("now", {}),))),
        Case("line breaks of a value", write("", [("write", {"text": "\n\nx\n\n"})]),
             Outcome(calls=(Call("write", {"text": "\n\nx\n\n"}),))),
        Case("the end of a value after its line break",
             call("write", parameter("text", "x\n", "\n</rfl:parameter>")),
             Outcome(calls=(Call("write", {"text": "x\n"}),))),
        Case("no end of a parameter",
             call("write", parameter("path", "a", "\n") + parameter("text", "hi")),
             Outcome(calls=(HI,))),
        Case("no end of the call", call("write", parameter("text", "x"), ""),
             Outcome(calls=(Call("write", {"text": "x"}),))),
        Case("a server's tool is a function like any other", call("python", ""),
             Outcome(calls=(Call("python", {}),)), tools=(function("python"),)),
        Case("no header", "Just text.", Outcome(None, "Just text.")),
        Case("cut in a value", call("write", parameter("text", "ab", ""), ""),
             Outcome(calls=(Call("write", '{"text": "ab'),)), finish="length"),
    ),
)  # fmt: skip
