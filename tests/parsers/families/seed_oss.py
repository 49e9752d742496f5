"""Seed-OSS: Qwen 3 Coder's calls and think tags, each with `seed:` before its name."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.samples.sample import Call, Outcome
from tests.parsers.families.family import Case, Family, Invocation, Tags, function


def write(content: str, calls: Sequence[Invocation]) -> str:
    """Write as the chat template of Seed-OSS does: str() of each value, on the marker's line."""
    written = []
    for name, arguments in calls:
        parameters = "".join(
            f"<parameter={key}>{value}</parameter>\n" for key, value in arguments.items()
        )
        written.append(
            f"<seed:tool_call>\n<function={name}>\n{parameters}</function>\n</seed:tool_call>"
        )
    return "\n".join(([content] if content else []) + written)


BUDGET = "<seed:cot_budget_reflect>The current thinking budget is 0.</seed:cot_budget_reflect>"
FREE = (function("free"),)
NOW = write("", [("now", {})])

FAMILY = Family(
    "seed_oss",
    write,
    markers=("<seed:tool_call>", "</seed:tool_call>", "<seed:think>", "</seed:think>"),
    reasoning_parser="seed_oss",
    tags=Tags("<seed:think>", "</seed:think>", prompt_open="<seed:think>",
              prompt_closed=f"<seed:think>{BUDGET}</seed:think>"),
    vllm="seed_oss",
    vllm_differs={"nested": "its template writes Python's repr of objects; vLLM gives a string "
                            "where an object is declared",
                  "lists": "its template writes Python's repr of lists; vLLM gives a string where "
                           "a list is declared",
                  "types": "its template writes Python's None for null; vLLM keeps the word "
                           "where a string is allowed, too"},
    cases=(
        Case("reasoning and a call", f"<seed:think>I look.</seed:think>It is\n{NOW}",
             Outcome("I look.", "It is", (Call("now", {}),))),
        Case("a call inside reasoning", f"<seed:think>I look.\n{NOW}\nSo.</seed:think>Done.",
             Outcome(f"I look.\n{NOW}\nSo.", "Done.")),
        Case("a budget's tags are reasoning", f"<seed:think>{BUDGET}So.</seed:think>Yes.",
             Outcome(BUDGET + "So.", "Yes."), tools=()),
        Case("end marker of the call in a value",
             write("", [("write", {"text": "a </seed:tool_call> b </function> c"})]),
             Outcome(calls=(Call("write", {"text": "a </seed:tool_call> b </function> c"}),)),
             vllm="loses the parameter"),
        Case("line breaks around a value are its own",
             write("", [("write", {"path": "\n", "text": "\n\nx\n"})]),
             Outcome(calls=(Call("write", {"path": "\n", "text": "\n\nx\n"}),)),
             vllm="drops one on each side, as for Qwen, whose template writes them"),
        Case("line breaks around a number",
             "<seed:tool_call>\n<function=add>\n<parameter=a>\n1\n</parameter>\n</function>\n"
             "</seed:tool_call>",
             Outcome(calls=(Call("add", {"a": 1}),))),
        Case("no end of the first call",
             "<seed:tool_call>\n<function=add>\n<parameter=a>1</parameter>\n"
             "<seed:tool_call>\n<function=now>\n</function>\n</seed:tool_call>",
             Outcome(calls=(Call("add", {"a": 1}), Call("now", {}))), vllm="loses the second call"),
        Case("no white space",
             "<seed:tool_call><function=add><parameter=a>1</parameter></function></seed:tool_call>",
             Outcome(calls=(Call("add", {"a": 1}),))),
        Case("two functions in one call",
             "<seed:tool_call>\n<function=now>\n</function>\n\n<function=add>\n"
             "<parameter=a>1</parameter>\n</function>\n</seed:tool_call>",
             Outcome(calls=(Call("now", {}), Call("add", {"a": 1})))),
        Case("undeclared parameters are strings", write("", [("free", {"x": "3"})]),
             Outcome(calls=(Call("free", {"x": "3"}),)), tools=FREE),
        Case("no end of the call", "<seed:tool_call>\n<function=now>\n</function>",
             Outcome(calls=(Call("now", {}),))),
        Case("text behind", f"{NOW}\nDone.", Outcome(None, "Done.", (Call("now", {}),)),
             vllm="drops text behind a call"),
        Case("a marker that begins no call", "Use <seed:tool_call> to call.",
             Outcome(None, "Use <seed:tool_call> to call."),
             vllm="drops the marker and what follows it"),
        Case("cut in a value", "<seed:tool_call>\n<function=write>\n<parameter=text>ab",
             Outcome(calls=(Call("write", '{"text": "ab'),)), finish="length",
             vllm="loses the parameter"),
    ),
)  # fmt: skip
