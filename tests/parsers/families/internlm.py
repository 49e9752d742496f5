"""InternLM 2 and Intern-S1: a call behind `<|action_start|><|plugin|>`."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.samples.sample import Call, Outcome
from tests.parsers.families.family import Case, Family, Invocation, Tags
from tests.parsers.families.json_objects import ENDS_EARLY, HI, HI_JSON, USUAL, json_cases, to_json

START = "<|action_start|><|plugin|>"


def enclose(call: str) -> str:
    return f"{START}\n{call}<|action_end|>"


def write(content: str, calls: Sequence[Invocation]) -> str:
    """Write as vLLM's template for InternLM 2 does, with the key that its parser tries first."""
    return content + "".join(enclose(to_json(*call, "parameters")) for call in calls)


NOW = Call("now", {})

FAMILY = Family(
    "internlm",
    write,
    markers=("<think>", "</think>"),
    special=("<|action_start|>", "<|plugin|>", "<|interpreter|>", "<|action_end|>"),
    reasoning_parser="internlm",
    tags=Tags(),
    vllm="internlm",
    vllm_differs=dict.fromkeys(("two calls", "three of one", "a call behind one without arguments"),
                               "raises ValueError where there are two calls"),
    cases=(
        *json_cases(enclose, key="p"
                              "a"
                              "r"
                              "a"
                              "m"
                              "e"
                              "t"
                              "e"
                              "r"
                              "s", end="<|action_"
                                       "end|>", vllm=USUAL | ENDS_EARLY),
        Case("arguments instead of parameters",
             enclose(to_json("write", {"path": "a", "text": "hi"})), Outcome(calls=(HI,))),
        Case("white space between the markers",
             f"<|action_start|> <|plugin|>\n{to_json('now', {})}\n<|action_end|>\n",
             Outcome(calls=(NOW,)), vllm="wants nothing between the markers"),
        Case("no end marker", f'{START}{{"name": "write", "parameters": {HI_JSON}}}',
             Outcome(calls=(HI,))),
        Case("text behind", enclose(to_json("now", {})) + "\nDone.", Outcome(None, "Done.", (NOW,)),
             vllm="drops text behind a call"),
        Case("code", "<|action_start|><|interpreter|>\nprint(1)<|action_end|>",
             Outcome(None, "\nprint(1)"), vllm="gives the markup as content, too"),
        Case("reasoning and a call", f"<think>So.</think>\n{enclose(to_json('now', {}))}",
             Outcome("So.", None, (NOW,))),
        Case("cut in the name", f'Hi{START}\n{{"name": "wri', Outcome(None, "Hi"), finish="length",
             vllm="raises JSONDecodeError"),
        Case("cut in the arguments", f'{START}\n{{"name": "write", "parameters": {{"path": "a',
             Outcome(calls=(Call("write", '{"path": "a'),)), finish="length",
             vllm="raises JSONDecodeError"),
    ),
)  # fmt: skip
