"""LFM 2: a list of Python calls between two tokens, or the same in JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence

from benchmarks.samples.sample import Call, Outcome
from tests.parsers.families.family import Case, Family, Invocation
from tests.parsers.families.pythonic import call

START, END = "<|tool_call_start|>", "<|tool_call_end|>"


def write(content: str, calls: Sequence[Invocation]) -> str:
    """Write as the chat template of LFM 2.5 does, with the answer's text in front."""
    written = (
        f"{START}[{', '.join(call(*invocation) for invocation in calls)}]{END}" if calls else ""
    )
    return content + written


HI = Call("write", {"path": "a", "text": "hi"})
HI_CALL = "write(path='a', text='hi')"
HI_JSON = json.dumps({"name": "write", "arguments": HI.arguments})
NOW = Call("now", {})
NO_JSON = "reads Python only and gives the markup as text"

FAMILY = Family(
    "lfm2",
    write,
    special=(START, END),
    vllm="lfm2",
    cases=(
        Case("white space around the list", f"{START}\n[{HI_CALL}]\n{END}", Outcome(calls=(HI,))),
        Case("text behind", f"{START}[{HI_CALL}]{END}Writing it.", Outcome(None, "Writing it.", (HI,))),
        Case("two sections", f"{START}[{HI_CALL}]{END}{START}[now()]{END}", Outcome(calls=(HI, NOW)), vllm="takes the first section only"),
        Case("JSON", f"{START}[{HI_JSON}]{END}", Outcome(calls=(HI,)), vllm=NO_JSON),
        Case("two in JSON", f'{START}[{HI_JSON}, {{"name": "now", "arguments": {{}}}}]{END}', Outcome(calls=(HI, NOW)), vllm=NO_JSON),
        Case("one object of JSON", f"{START}{HI_JSON}{END}", Outcome(calls=(HI,)), vllm=NO_JSON),
        Case("indented JSON", f"{START}[\n{HI_JSON}\n]{END}", Outcome(calls=(HI,)), vllm=NO_JSON),
        Case("end marker in a string", f"{START}[write(path='a', text='{END}')]{END}", Outcome(calls=(Call("write", {"path": "a", "text": END}),)),
             vllm="ends the calls inside the string"),
        Case("a line break in a string", f"{START}[write(path='a', text='x\ny')]{END}", Outcome(calls=(Call("write", {"path": "a", "text": "x\ny"}),))),
        Case("a reserved word", f"{START}[now(from=1)]{END}", Outcome(calls=(Call("now", {"from": 1}),))),
        Case("a leading zero", f"{START}[add(a=07)]{END}", Outcome(calls=(Call("add", {"a": 7}),))),
        Case("no call in the list", f"{START}[]{END}", Outcome(None, f"{START}[]"), vllm="keeps the end marker, too"),
        Case("no list", f"{START}hello{END}", Outcome(None, f"{START}hello"), vllm="keeps the end marker, too"),
        Case("no end marker", f"{START}[{HI_CALL}]", Outcome(calls=(HI,))),
        Case("no closing bracket", f"{START}[{HI_CALL}{END}", Outcome(calls=(HI,)), vllm="gives the markup as text"),
        Case("a word behind the list", f"{START}[{HI_CALL}] ok{END}", Outcome(None, "ok", (HI,)), vllm="gives the markup as text"),
        Case("cut in a string", f"{START}[write(path='a", Outcome(calls=(Call("write", '{"path": "a'),)), finish="length", vllm="gives the markup as text"),
        Case("cut in front of the list", f"Hi{START}", Outcome(None, "Hi"), finish="length", vllm="gives the markup as text"),
    ),
)  # fmt: skip
