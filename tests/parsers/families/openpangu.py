"""openPangu V2: an array of call objects between LFM 2's tokens, and reasoning."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.samples.sample import Call, Outcome
from tests.parsers.families.family import Case, Family, Invocation, Tags
from tests.parsers.families.json_objects import call_array, json_cases


def enclose(call: str) -> str:
    return f"<|tool_call_start|>[{call}]<|tool_call_end|>"


def write(content: str, calls: Sequence[Invocation]) -> str:
    """Write as vLLM's parser of openPangu V2 reads, behind a closed thought."""
    called = f"<|tool_call_start|>{call_array(calls)}<|tool_call_end|>"
    return content + (called if calls else "")


CLOSED = "<|im_start|>assistant\n<think></think>"

FAMILY = Family(
    "openpangu_v2",
    write,
    special=("<|tool_call_start|>", "<|tool_call_end|>", "<think>", "</think>"),
    reasoning_parser="openpangu_v2",
    tags=Tags(),
    prompt=CLOSED,
    cases=(
        *json_cases(enclose, end="<|tool_call_end|>"),
        Case("reasoning and a call", f"So.</think>{write('', [('now', {})])}",
             Outcome("So.", None, (Call("now", {}),)), prompt="<|im_start|>assistant\n<think>"),
    ),
)  # fmt: skip
