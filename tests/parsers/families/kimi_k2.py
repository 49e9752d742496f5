"""Kimi K2: a section of calls, each named by its id `functions.name:number`; reasoning first."""

from __future__ import annotations

import json
from collections.abc import Sequence

from benchmarks.samples.sample import Call, Outcome
from tests.parsers.families.family import Case, Family, Invocation, Tags, function
from tests.parsers.families.json_objects import HI, HI_JSON

BEGIN, END = "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"
CALL, ARGUMENTS, CALL_END = (
    "<|tool_call_begin|>",
    "<|tool_call_argument_begin|>",
    "<|tool_call_end|>",
)


def one(header: str, arguments: str) -> str:
    return f"{CALL}{header}{ARGUMENTS}{arguments}{CALL_END}"


def write(content: str, calls: Sequence[Invocation]) -> str:
    """Write as vLLM's parser describes it."""
    written = "".join(
        one(f"functions.{name}:{number}", json.dumps(arguments, ensure_ascii=False))
        for number, (name, arguments) in enumerate(calls)
    )
    return content + (f"{BEGIN}{written}{END}" if calls else "")


TEXT = f"a {CALL_END} b {END} c"
NOW = Call("now", {})

FAMILY = Family(
    "kimi_k2",
    write,
    markers=("<think>", "</think>"),
    special=(BEGIN, END, CALL, ARGUMENTS, CALL_END),
    reasoning_parser="kimi_k2",
    tags=Tags(prompt_open="<think>", prompt_closed="<think></think>"),
    vllm="kimi_k2",
    cases=(
        Case("markers in a string", write("", [("write", {"text": TEXT})]),
             Outcome(calls=(Call("write", {"text": TEXT}),)),
             vllm="ends the call at the first end marker, inside the string"),
        Case("words between calls",
             f"{BEGIN}{one('functions.write:0', HI_JSON)} and then {one('functions.now:1', '{}')}"
             f"\nThat is all.{END}Done.",
             Outcome(None, "Done.", (HI, Call("now", {}))), vllm="drops text behind a call"),
        Case("words after calls without their end",
             f"{BEGIN}{one('functions.write:0', HI_JSON)}\nI wrote it.",
             Outcome(None, "I wrote it.", (HI,)), vllm="drops text behind a call"),
        Case("no end of the first call",
             f"{BEGIN}{one('functions.write:0', HI_JSON).removesuffix(CALL_END)}"
             f"{one('functions.now:1', '{}')}{END}",
             Outcome(calls=(HI, Call("now", {}))),
             vllm="takes the second for arguments of the first"),
        Case("no namespace", f"{BEGIN}{one('write:0', HI_JSON)}{END}", Outcome(calls=(HI,))),
        Case("no number", f"{BEGIN}{one('functions.write', HI_JSON)}{END}", Outcome(calls=(HI,)),
             vllm="gives nothing at all"),
        Case("a name with dots and dashes", f"{BEGIN}{one('functions.a.b-c:12', '{}')}{END}",
             Outcome(calls=(Call("a.b-c", {}),)), tools=(function("a.b-c"),)),
        Case("white space around",
             f"{BEGIN}\n{CALL} functions.write:0\n{ARGUMENTS} {HI_JSON} {CALL_END}\n{END}\n",
             Outcome(calls=(HI,))),
        Case("no section", one("functions.write:0", HI_JSON), Outcome(calls=(HI,)),
             vllm="gives the markup as content"),
        Case("no end markers", f"{BEGIN}{CALL}functions.write:0{ARGUMENTS}{HI_JSON}",
             Outcome(calls=(HI,))),
        Case("no end of the call", f"{BEGIN}{CALL}functions.write:0{ARGUMENTS}{HI_JSON}{END}",
             Outcome(calls=(HI,))),
        Case("a brace missing",
             f"{BEGIN}{one('functions.write:0', HI_JSON.removesuffix('}'))}"
             f"{one('functions.now:1', '{}')}{END}",
             Outcome(calls=(HI, NOW)), vllm="leaves the arguments invalid"),
        Case("no arguments at all", f"{BEGIN}{one('functions.now:0', '')}{END}",
             Outcome(calls=(NOW,))),
        Case("text behind", f"{BEGIN}{one('functions.now:0', '{}')}{END}Done.",
             Outcome(None, "Done.", (NOW,)), vllm="drops text behind a call"),
        Case("a section that is none", f"{BEGIN}Nothing.", Outcome(None, f"{BEGIN}Nothing."),
             vllm="gives nothing at all"),
        Case("reasoning and a call", f"<think>So.</think>I call.{write('', [('now', {})])}",
             Outcome("So.", "I call.", (NOW,))),
        Case("a call in reasoning", f"<think>So.{write('', [('now', {})])}",
             Outcome("So.", None, (NOW,))),
        Case("cut in the name", f"Hi{BEGIN}{CALL}functions.wri", Outcome(None, "Hi"),
             finish="length", vllm="takes the half name for a whole one"),
        Case("cut in the arguments", f'{BEGIN}{CALL}functions.write:0{ARGUMENTS}{{"path": "a',
             Outcome(calls=(Call("write", '{"path": "a'),)), finish="length"),
    ),
)  # fmt: skip
