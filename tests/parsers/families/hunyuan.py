"""Hunyuan 3 and 4: `<tool_calls><tool_call>f<tool_sep><arg_key>p</arg_key>...`."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.samples.sample import Call, Outcome
from tests.parsers.families.family import Case, Family, Invocation, Tags, function
from tests.parsers.families.glm45 import read_text


def write(
    content: str, calls: Sequence[Invocation], separator: str = "<tool_sep>", line: str = "\n"
) -> str:
    """Write as the chat template of version 3 does; without separator and lines, as that of 4."""
    written = [
        f"<tool_call>{name}{separator}{line}"
        + "".join(
            f"<arg_key>{key}</arg_key>{line}<arg_value>{read_text(value)}</arg_value>{line}"
            for key, value in arguments.items()
        )
        + f"</tool_call>{line}"
        for name, arguments in calls
    ]
    return content + (f"<tool_calls>{line}{''.join(written)}</tool_calls>" if calls else "")


def write_v4(content: str, calls: Sequence[Invocation]) -> str:
    """Write as the chat template of version 4 does."""
    return write(content, calls, "", "")


FREE = (function("free"),)
PAIR: list[Invocation] = [("write", {"path": "a", "text": "x"}), ("add", {"a": 1, "b": 2.5})]
PAIR_CALLS = (Call("write", {"path": "a", "text": "x"}), Call("add", {"a": 1, "b": 2.5}))
NOW, NOW_CALL = write("", [("now", {})]), Call("now", {})

FAMILY = Family(
    "hy_v3",
    write,
    markers=(*(f"<{slash}{tag}>" for tag in ("think", "tool_calls", "tool_call", "arg_key",
                                              "arg_value") for slash in ("", "/")), "<tool_sep>"),
    reasoning_parser="hy_v3",
    tags=Tags(prompt_open="<think>", prompt_closed="<think></think>"),
    vllm="hy_v3",
    vllm_differs={"types": "keeps the word null where a string is allowed, too"},
    cases=(
        Case("version 4's calls", write_v4("I do.", PAIR), Outcome(None, "I do.", PAIR_CALLS),
             vllm="is the parser of version 3, which wants its separator"),
        Case("version 4's call without parameters", write_v4("", [("now", {})]),
             Outcome(calls=(NOW_CALL,)), vllm="wants the separator"),
        Case("no lines", write("I do.", PAIR, line=""), Outcome(None, "I do.", PAIR_CALLS)),
        Case("reasoning and a call", f"<think>I look.</think>It is{NOW}",
             Outcome("I look.", "It is", (NOW_CALL,))),
        Case("reasoning that a call ends", f"I look.{NOW}", Outcome("I look.", None, (NOW_CALL,)),
             prompt="<|im_start|>assistant\n<think>"),
        Case("the end of reasoning once more", "</think>Done.", Outcome(None, "Done."), tools=(),
             prompt="<|im_start|>assistant\n<think></think>"),
        Case("white space of a string is its own", write("", [("write", {"text": "\n  x \n"})]),
             Outcome(calls=(Call("write", {"text": "\n  x \n"}),))),
        Case("end markers in a value",
             write("", [("write", {"text": "a </tool_calls> b </arg_key> c </think>"})]),
             Outcome(calls=(Call("write", {"text": "a </tool_calls> b </arg_key> c </think>"}),))),
        Case("undeclared parameters are strings", write("", [("free", {"x": "3"})]),
             Outcome(calls=(Call("free", {"x": "3"}),)), tools=FREE),
        Case("a word where a number is declared", write("", [("add", {"a": "many"})]),
             Outcome(calls=(Call("add", {"a": "many"}),))),
        Case("Python's literals", write("", [("query", {"filter": "{'a': True, 'b': None}"})]),
             Outcome(calls=(Call("query", {"filter": {"a": True, "b": None}}),))),
        Case("no end of the section", NOW.removesuffix("</tool_calls>"),
             Outcome(calls=(NOW_CALL,))),
        Case("no end of the first call",
             write("", PAIR).replace("</tool_call>", "", 1), Outcome(calls=PAIR_CALLS),
             vllm="gives the parameters of both to the first"),
        Case("two sections", f"{NOW}\n{NOW}", Outcome(calls=(NOW_CALL, NOW_CALL))),
        Case("text behind", f"{NOW}\nDone.", Outcome(None, "Done.", (NOW_CALL,)),
             vllm="drops text behind a call"),
        Case("a marker that begins no call", "Use <tool_calls> to call.",
             Outcome(None, "Use <tool_calls> to call."), vllm="drops what follows the marker"),
        Case("cut in the name", "Hi<tool_calls><tool_call>wri", Outcome(None, "Hi"),
             finish="length"),
        Case("cut in a value",
             "<tool_calls><tool_call>write<tool_sep><arg_key>text</arg_key><arg_value>ab",
             Outcome(calls=(Call("write", '{"text": "ab'),)), finish="length",
             vllm="loses the parameter"),
    ),
)  # fmt: skip
