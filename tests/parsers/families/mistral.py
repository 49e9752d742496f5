"""Mistral: `[TOOL_CALLS]name[ARGS]{...}` since version 11 of the tokenizer.

Earlier versions write `[TOOL_CALLS] [{...}]`. Reasoning begins with `[THINK]`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from benchmarks.samples.sample import Call, Outcome
from tests.parsers.families.family import SCENARIOS, Case, Family, Invocation, Tags
from tests.parsers.families.json_objects import HI, HI_JSON, call_array


def write(content: str, calls: Sequence[Invocation]) -> str:
    """Write as mistral-common's tokenizer of version 13 does."""
    return content + "".join(
        f"[TOOL_CALLS]{name}[ARGS]{json.dumps(arguments, ensure_ascii=False)}"
        for name, arguments in calls
    )


def write_array(content: str, calls: Sequence[Invocation]) -> str:
    """Write as the tokenizers up to version 7 do."""
    return content + (f"[TOOL_CALLS] {call_array(calls)}" if calls else "")


ARRAYS = tuple(
    Case(
        f"array: {scenario.id}",
        write_array(scenario.content, scenario.calls),
        Outcome(None, scenario.content or None, tuple(Call(*call) for call in scenario.calls)),
        vllm="reads arrays only where the vocabulary has no [ARGS]",
    )
    for scenario in SCENARIOS
    if scenario.calls
)
NOW = Call("now", {})

FAMILY = Family(
    "mistral",
    write,
    special=("[TOOL_CALLS]", "[ARGS]", "[CALL_ID]", "[THINK]", "[/THINK]"),
    reasoning_parser="mistral",
    tags=Tags("[THINK]", "[/THINK]", prompt_open="[THINK]", prompt_closed="[THINK][/THINK]"),
    vllm="mistral",
    cases=(
        *ARRAYS,
        Case("a call id", f"[TOOL_CALLS]write[CALL_ID]a1B2c3D4e[ARGS]{HI_JSON}",
             Outcome(calls=(HI,)), vllm="takes the id for a part of the name"),
        Case("ids in the array",
             f'[TOOL_CALLS][{{"name": "write", "arguments": {HI_JSON}, "id": "a1B2c3D4e"}}]',
             Outcome(calls=(HI,)), vllm="takes the bracket for the name"),
        Case("arguments first in the array",
             f'[TOOL_CALLS] [{{"arguments": {HI_JSON}, "name": "write"}}]', Outcome(calls=(HI,)),
             vllm="takes the bracket for the name"),
        *(
            Case(f"{space!r} in the array",
                 f'[TOOL_CALLS]{space}[{space}{{"name": "write", "arguments": {HI_JSON}}}{space}]',
                 Outcome(calls=(HI,)), vllm="takes the bracket for the name")
            for space in ("  ", "\r\n", "\n\t ")
        ),
        Case("a list that is no call", "[TOOL_CALLS] [1]", Outcome(None, "[TOOL_CALLS] [1]"),
             vllm="takes the bracket for the name"),
        Case("no separator", f"[TOOL_CALLS]write{HI_JSON}", Outcome(calls=(HI,))),
        Case("white space around the name", f"[TOOL_CALLS] write [ARGS] {HI_JSON}",
             Outcome(calls=(HI,))),
        Case("markers in a string", write("", [("write", {"text": "a [TOOL_CALLS] b [ARGS] c"})]),
             Outcome(calls=(Call("write", {"text": "a [TOOL_CALLS] b [ARGS] c"}),)),
             vllm="ends the call at the first marker, inside the string"),
        Case("nothing behind the separator", "[TOOL_CALLS]now[ARGS]",
             Outcome(None, "[TOOL_CALLS]now[ARGS]"),
             vllm="takes a call that has no arguments for complete"),
        Case("a brace missing",
             f"[TOOL_CALLS]write[ARGS]{HI_JSON.removesuffix('}')}[TOOL_CALLS]now[ARGS]{{}}",
             Outcome(calls=(HI, NOW)), vllm="leaves the arguments invalid"),
        Case("text behind", "[TOOL_CALLS]now[ARGS]{}\nDone.", Outcome(None, "Done.", (NOW,)),
             vllm="drops text behind a call"),
        Case("text behind an array", f"[TOOL_CALLS] {call_array([('now', {})])}\nDone.",
             Outcome(None, "Done.", (NOW,)), vllm="takes the bracket for the name"),
        Case("a marker that begins no call", "Write [TOOL_CALLS] first.",
             Outcome(None, "Write [TOOL_CALLS] first."), vllm="takes the next words for a name"),
        Case("a name without arguments", "Hi.[TOOL_CALLS]now", Outcome(None, "Hi.", (NOW,))),
        Case("a name that is not declared", "[TOOL_CALLS]sure",
             Outcome(None, "[TOOL_CALLS]sure"), vllm="calls it"),
        Case("arguments without a name", f"bash[TOOL_CALLS]{HI_JSON}",
             Outcome(None, f"bash[TOOL_CALLS]{HI_JSON}"), vllm="calls a function without a name"),
        Case("reasoning and a call", "[THINK]So.[/THINK]I call.[TOOL_CALLS]now[ARGS]{}",
             Outcome("So.", "I call.", (NOW,))),
        Case("a call in reasoning", "[THINK]So.[TOOL_CALLS]now[ARGS]{}[/THINK]Yes.",
             Outcome("So.[TOOL_CALLS]now[ARGS]{}", "Yes.")),
        Case("a call in reasoning that does not end", "[THINK]So.[TOOL_CALLS]now[ARGS]{}",
             Outcome("So.", None, (NOW,))),
        Case("Magistral's first tags", "<think>\nSo.\n</think>\nYes.", Outcome("\nSo.\n", "\nYes."),
             tools=()),
        Case("cut in the name", "Hi[TOOL_CALLS]wri", Outcome(None, "Hi"), finish="length",
             vllm="takes the half name for a whole one"),
        Case("cut in the arguments", '[TOOL_CALLS]write[ARGS]{"path": "a',
             Outcome(calls=(Call("write", '{"path": "a'),)), finish="length"),
        Case("cut in the array", '[TOOL_CALLS] [{"name": "write", "arguments": {"path": "a',
             Outcome(calls=(Call("write", '{"path": "a'),)), finish="length",
             vllm="takes the bracket for the name"),
    ),
)  # fmt: skip
