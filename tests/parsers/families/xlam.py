"""xLAM: an array, bare or wrapped."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.samples.sample import Call, Outcome
from tests.parsers.families.family import Case, Family, Invocation
from tests.parsers.families.json_objects import (
    HI,
    KEEPS_NULL,
    STRICT,
    WANTS_KEY,
    call_array,
    json_cases,
)


def write(content: str, calls: Sequence[Invocation]) -> str:
    """Write as vLLM's chat template for xLAM does; calls behind text stand in a code block."""
    if content and calls:
        return f"{content}\n```json\n{call_array(calls)}\n```"
    return content or call_array(calls)


HIS = call_array([("write", {"path": "a", "text": "hi"})])
CODE = "```python\nx = [1]\n```"
NOW = Call("now", {})

FAMILY = Family(
    "xlam",
    write,
    vllm="xlam",
    cases=(
        *json_cases(lambda call: f"[{call}]", vllm=STRICT | WANTS_KEY | KEEPS_NULL),
        Case("in a code block", f"```json\n{HIS}\n```", Outcome(calls=(HI,))),
        Case("in a code block of another system", f"```json\r\n{HIS}\r\n```", Outcome(calls=(HI,))),
        Case("in a code block without a language", f"```\n{HIS}\n```", Outcome(calls=(HI,))),
        Case("in Hermes's tags", f"<tool_call>{HIS}</tool_call>", Outcome(calls=(HI,))),
        Case("behind Mistral's marker", f"[TOOL_CALLS]{HIS}", Outcome(calls=(HI,))),
        Case("behind reasoning", f"<think>So.</think>{HIS}",
             Outcome(None, "<think>So.</think>", (HI,))),
        Case("behind reasoning and a line break", f"So.</think>\r\n{HIS}",
             Outcome(None, "So.</think>", (HI,))),
        Case("behind reasoning, text", "So.</think>Yes.", Outcome(None, "So.</think>Yes.")),
        Case("text around", f"I call.\n<tool_call>{HIS}</tool_call>\nDone.",
             Outcome(None, "I call.\n\nDone.", (HI,))),
        Case("a list that is no call", "[1, 2]", Outcome(None, "[1, 2]"),
             vllm="gives nothing at all"),
        Case("a link", "[Docs](https://x.y)", Outcome(None, "[Docs](https://x.y)")),
        Case("a list of persons", '[{"name": "Ann", "age": 3}]',
             Outcome(None, '[{"name": "Ann", "age": 3}]'), vllm="gives nothing at all"),
        Case("other code", f"Look:\n{CODE}\nDone.", Outcome(None, f"Look:\n{CODE}\nDone.")),
        Case("a code block of numbers", "```json\n[1, 2]\n```\nDone.",
             Outcome(None, "```json\n[1, 2]\n```\nDone."), vllm="drops the code block"),
        Case("cut in the name", '[{"name": "wri', Outcome(), finish="length",
             vllm="gives the markup as content"),
        Case("cut in the arguments", '[{"name": "write", "arguments": {"path": "a',
             Outcome(calls=(Call("write", '{"path": "a'),)), finish="length",
             vllm="gives the markup as content"),
    ),
)  # fmt: skip
