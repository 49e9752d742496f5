"""Step-Audio 2: a call's kind, its function and a JSON object, on lines between tags."""

from __future__ import annotations

import json
from collections.abc import Sequence

from benchmarks.samples.sample import Call, Outcome
from tests.parsers.families.family import Case, Family, Invocation


def write(content: str, calls: Sequence[Invocation]) -> str:
    """Write as vLLM's parser of Step-Audio 2 reads."""
    return content + "".join(
        f"<tool_call>function\n{name}\n{json.dumps(arguments, ensure_ascii=False)}</tool_call>"
        for name, arguments in calls
    )


NOW = Call("now", {})

FAMILY = Family(
    "step_audio_2",
    write,
    markers=("<tool_call>", "</tool_call>"),
    cases=(
        Case("lines around", "<tool_call>\nfunction\nnow\n{}\n</tool_call>",
             Outcome(calls=(NOW,))),
        Case("no end of the call", "<tool_call>function\nnow\n{}", Outcome(calls=(NOW,))),
        Case("text behind", f"{write('', [('now', {})])}\nDone.", Outcome(None, "Done.", (NOW,))),
        Case("a marker that begins no call", "Use <tool_call> to call.",
             Outcome(None, "Use <tool_call> to call.")),
        Case("a function that is none", "A <tool_call>function\nis nice.",
             Outcome(None, "A <tool_call>function\nis nice.")),
        Case("cut in the arguments", '<tool_call>function\nwrite\n{"path": "a',
             Outcome(calls=(Call("write", '{"path": "a'),)), finish="length"),
    ),
)  # fmt: skip
