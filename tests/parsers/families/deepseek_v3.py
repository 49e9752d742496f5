"""DeepSeek V3, R1 and V3.1: a section of calls, the arguments in a code block until V3.1."""

from __future__ import annotations

import json
from collections.abc import Sequence

from benchmarks.samples.sample import Call, Outcome
from tests.parsers.families.family import Case, Family, Invocation, Tags
from tests.parsers.families.json_objects import HI, HI_JSON

BEGIN, END = "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"
CALL, SEPARATOR, CALL_END = "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>"
MARKERS = (BEGIN, END, CALL, SEPARATOR, CALL_END)


def v3(name: str, arguments: str) -> str:
    return f"{CALL}function{SEPARATOR}{name}\n```json\n{arguments}\n```{CALL_END}"


def v31(name: str, arguments: str) -> str:
    return f"{CALL}{name}{SEPARATOR}{arguments}{CALL_END}"


def write_v3(content: str, calls: Sequence[Invocation]) -> str:
    """Write as vLLM's chat template for DeepSeek V3 does."""
    written = "\n".join(
        v3(name, json.dumps(arguments, ensure_ascii=False)) for name, arguments in calls
    )
    return content + (f"{BEGIN}{written}{END}" if calls else "")


def write_v31(content: str, calls: Sequence[Invocation]) -> str:
    """Write as vLLM's chat template for DeepSeek V3.1 does."""
    written = "".join(
        v31(name, json.dumps(arguments, ensure_ascii=False)) for name, arguments in calls
    )
    return content + (f"{BEGIN}{written}{END}" if calls else "")


MARKERS_IN_TEXT = f"a {CALL_END} b {END} ``` c"
NOW = Call("now", {})

NO_NAME = f"{BEGIN}{v3('a b', '{}')}".partition("<｜tool▁call▁end｜>")[0]

FAMILIES = (
    Family(
        "deepseek_v3",
        write_v3,
        markers=("<think>", "</think>", *MARKERS),
        reasoning_parser="deepseek_v3",
        tags=Tags(prompt_open="<think>", prompt_closed="</think>"),
        vllm="deepseek_v3",
        cases=(
            Case("markers in a string", write_v3("", [("write", {"text": MARKERS_IN_TEXT})]),
                 Outcome(calls=(Call("write", {"text": MARKERS_IN_TEXT}),))),
            Case("a type and no name", NO_NAME,
                 Outcome(None, NO_NAME), vllm="gives nothing at all"),
            Case("arguments in lines",
                 f'{BEGIN}{v3("write", json.dumps(HI.arguments, indent=2))}{END}',
                 Outcome(calls=(HI,)), vllm="reads arguments in one line only and drops these"),
            Case("no code block",
                 f"{BEGIN}{CALL}function{SEPARATOR}write\n{HI_JSON}{CALL_END}{END}",
                 Outcome(calls=(HI,)), vllm="wants exactly these line breaks and gives nothing"),
            Case("a code block without a language",
                 f"{BEGIN}{CALL}function{SEPARATOR}write\n```\n{HI_JSON}\n```{CALL_END}{END}",
                 Outcome(calls=(HI,)), vllm="wants exactly these line breaks and gives nothing"),
            Case("a brace missing",
                 f"{BEGIN}{v3('write', HI_JSON.removesuffix('}'))}{v3('now', '{}')}{END}",
                 Outcome(calls=(HI, NOW)), vllm="leaves the arguments invalid"),
            Case("no end markers",
                 f"{BEGIN}{CALL}function{SEPARATOR}write\n```json\n{HI_JSON}\n```",
                 Outcome(calls=(HI,)), vllm="wants exactly these line breaks and gives nothing"),
            Case("no arguments at all",
                 f"{BEGIN}{CALL}function{SEPARATOR}now\n```json\n```{CALL_END}{END}",
                 Outcome(calls=(NOW,)), vllm="wants exactly these line breaks and gives nothing"),
            Case("text behind", f"{BEGIN}{v3('now', '{}')}{END}\nDone.",
                 Outcome(None, "Done.", (NOW,)), vllm="drops text behind a call"),
            Case("a section that is none", f"{BEGIN}Nothing.", Outcome(None, f"{BEGIN}Nothing."),
                 vllm="gives nothing at all"),
            Case("reasoning and a call",
                 f"<think>So.</think>\n\nI call.{BEGIN}{v3('now', '{}')}{END}",
                 Outcome("So.", "I call.", (NOW,))),
            Case("a call in reasoning",
                 f"<think>So.{BEGIN}{v3('now', '{}')}{END}Yes.</think>It is 3.",
                 Outcome(f"So.{BEGIN}{v3('now', '{}')}{END}Yes.", "It is 3.")),
            Case("cut in the name", f"Hi{BEGIN}{CALL}function{SEPARATOR}wri", Outcome(None, "Hi"),
                 finish="length"),
            Case("cut in the arguments",
                 f'{BEGIN}{CALL}function{SEPARATOR}write\n```json\n{{"path": "a',
                 Outcome(calls=(Call("write", '{"path": "a'),)), finish="length",
                 vllm="gives nothing at all"),
        ),
    ),
    Family(
        "deepseek_v31",
        write_v31,
        markers=MARKERS,
        vllm="deepseek_v31",
        cases=(
            Case("markers in a string", write_v31("", [("write", {"text": MARKERS_IN_TEXT})]),
                 Outcome(calls=(Call("write", {"text": MARKERS_IN_TEXT}),)),
                 vllm="ends the call at the first end marker, inside the string"),
            Case("arguments in lines",
                 f'{BEGIN}{v31("write", json.dumps(HI.arguments, indent=2))}{END}',
                 Outcome(calls=(HI,)), vllm="reads arguments in one line only and drops these"),
            Case("white space around",
                 f"{BEGIN}\n{CALL}\nwrite\n{SEPARATOR}\n{HI_JSON}\n{CALL_END}\n{END}",
                 Outcome(calls=(HI,)), vllm="gives nothing at all"),
            Case("a brace missing",
                 f"{BEGIN}{v31('write', HI_JSON.removesuffix('}'))}{v31('now', '{}')}{END}",
                 Outcome(calls=(HI, NOW)), vllm="leaves the arguments invalid"),
            Case("no end markers", f"{BEGIN}{CALL}write{SEPARATOR}{HI_JSON}", Outcome(calls=(HI,)),
                 vllm="gives nothing at all"),
            Case("no arguments at all", f"{BEGIN}{v31('now', '')}{END}", Outcome(calls=(NOW,)),
                 vllm="gives arguments that are no JSON"),
            Case("text behind", f"{BEGIN}{v31('now', '{}')}{END}\nDone.",
                 Outcome(None, "Done.", (NOW,)), vllm="drops text behind a call"),
            Case("a section that is none", f"{BEGIN}Nothing.", Outcome(None, f"{BEGIN}Nothing."),
                 vllm="gives nothing at all"),
            Case("cut in the name", f"Hi{BEGIN}{CALL}wri", Outcome(None, "Hi"), finish="length"),
            Case("cut in the arguments", f'{BEGIN}{CALL}write{SEPARATOR}{{"path": "a',
                 Outcome(calls=(Call("write", '{"path": "a'),)), finish="length",
                 vllm="gives nothing at all"),
        ),
    ),
)  # fmt: skip
