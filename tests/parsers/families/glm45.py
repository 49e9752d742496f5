"""GLM 4.5 to 4.7, Ling 3, Spark 2.5, IQuest's models and Poolside.

`<tool_call>f<arg_key>p</arg_key><arg_value>value</arg_value></tool_call>`
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from benchmarks.samples.sample import Call, Outcome
from tests.parsers.families.family import Case, Family, Invocation, Tags, function


def read_text(value: Any) -> str:
    """Return a value's text: strings as they are, JSON of the rest."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def write(content: str, calls: Sequence[Invocation], line: str = "", tag: str = "tool_call") -> str:
    """Write as the chat template of GLM 4.7 does; with `line`, as that of GLM 4.5."""
    written = [
        f"<{tag}>{name}{line}"
        + "".join(
            f"<arg_key>{key}</arg_key>{line}<arg_value>{read_text(value)}</arg_value>{line}"
            for key, value in arguments.items()
        )
        + f"</{tag}>"
        for name, arguments in calls
    ]
    return line.join(([content] if content else []) + written)


FREE = (function("free"),)
PAIR: list[Invocation] = [("write", {"path": "a", "text": "x"}), ("add", {"a": 1, "b": 2.5})]
PAIR_CALLS = (Call("write", {"path": "a", "text": "x"}), Call("add", {"a": 1, "b": 2.5}))
NOW = write("", [("now", {})])

GLM45 = Family(
    "glm45",
    write,
    markers=tuple(f"<{slash}{tag}>" for tag in ("think", "tool_call", "arg_key", "arg_value")
                  for slash in ("", "/")),
    reasoning_parser="glm45",
    tags=Tags(prompt_open="<think>", prompt_closed="<think></think>"),
    vllm="glm47",
    cases=(
        Case("GLM 4.5's lines", write("I do.", PAIR, "\n"), Outcome(None, "I do.", PAIR_CALLS)),
        Case("GLM 4.5's lines, no arguments", write("", [("now", {})], "\n"),
             Outcome(calls=(Call("now", {}),))),
        Case("closed by GLM 4.7's prompt", f"It is{NOW}",
             Outcome(None, "It is", (Call("now", {}),)), prompt="<|im_start|>assistant\n</think>"),
        Case("reasoning and a call", f"<think>I look.</think>It is{NOW}",
             Outcome("I look.", "It is", (Call("now", {}),))),
        Case("reasoning that a call ends", f"I look.{NOW}",
             Outcome("I look.", None, (Call("now", {}),)), prompt="<|im_start|>assistant\n<think>"),
        Case("a call inside reasoning", f"<think>I look.{NOW}So.</think>Done.",
             Outcome(f"I look.{NOW}So.", "Done.")),
        Case("the end of reasoning once more", "</think>Done.", Outcome(None, "Done."), tools=(),
             prompt="<|im_start|>assistant\n</think>"),
        Case("white space of a string is its own", write("", [("write", {"text": "\n  x \n"})]),
             Outcome(calls=(Call("write", {"text": "\n  x \n"}),))),
        Case("white space around a number", write("", [("add", {"a": " 3\n"})]),
             Outcome(calls=(Call("add", {"a": 3}),))),
        Case("end marker of the call in a value",
             write("", [("write", {"text": "a <arg_key> b </arg_key> c </think>"})]),
             Outcome(calls=(Call("write", {"text": "a <arg_key> b </arg_key> c </think>"}),))),
        Case("undeclared parameters are strings", write("", [("free", {"x": "3"})]),
             Outcome(calls=(Call("free", {"x": "3"}),)), tools=FREE),
        Case("a word where a number is declared", write("", [("add", {"a": "many"})]),
             Outcome(calls=(Call("add", {"a": "many"}),))),
        Case("Python's literals", write("", [("query", {"filter": "{'a': True, 'b': None}"})]),
             Outcome(calls=(Call("query", {"filter": {"a": True, "b": None}}),)),
             vllm="gives a string where an object is declared"),
        Case("no end of the call", "<tool_call>add<arg_key>a</arg_key><arg_value>3</arg_value>",
             Outcome(calls=(Call("add", {"a": 3}),))),
        Case("no end of the first call",
             f"<tool_call>add<arg_key>a</arg_key><arg_value>3</arg_value>{NOW}",
             Outcome(calls=(Call("add", {"a": 3}), Call("now", {}))), vllm="loses the second call"),
        Case("a key without a value",
             "<tool_call>add<arg_key>b</arg_key><arg_key>a</arg_key><arg_value>3</arg_value>"
             "</tool_call>",
             Outcome(calls=(Call("add", 'b {"a": 3'),)), unfinished=True,
             vllm="takes both for one key"),
        Case("text behind", f"{NOW}\nDone.", Outcome(None, "Done.", (Call("now", {}),)),
             vllm="loses text behind a call"),
        Case("a marker that begins no call", "Use <tool_call> to call.",
             Outcome(None, "Use <tool_call> to call."), vllm="drops what follows the marker"),
        Case("cut in the name", "Hi<tool_call>wri", Outcome(None, "Hi"), finish="length"),
        Case("cut in a value", "<tool_call>write<arg_key>text</arg_key><arg_value>ab",
             Outcome(calls=(Call("write", '{"text": "ab'),)), finish="length",
             vllm="loses the parameter"),
    ),
)  # fmt: skip


def write_lines(content: str, calls: Sequence[Invocation]) -> str:
    """Write as the chat templates of GLM 4.5 and Poolside's models do."""
    return write(content, calls, "\n")


NOW_LINES = write_lines("", [("now", {})])

POOLSIDE_V1 = Family(
    "poolside_v1",
    write_lines,
    markers=GLM45.markers,
    reasoning_parser="poolside_v1",
    tags=Tags(prompt_open="<think>", prompt_closed="</think>"),
    vllm="poolside_v1",
    cases=(
        Case("no lines", write("I do.", PAIR), Outcome(None, "I do.", PAIR_CALLS)),
        Case("reasoning and a call", f"I look.</think>It is{NOW_LINES}",
             Outcome("I look.", "It is", (Call("now", {}),)),
             prompt="<|im_start|>assistant\n<think>"),
        Case("undeclared parameters are JSON if they can be",
             write_lines("", [("free", {"x": "3", "y": "z"})]),
             Outcome(calls=(Call("free", {"x": 3, "y": "z"}),)), tools=FREE),
        Case("Python's literals",
             write_lines("", [("query", {"filter": "{'a': True, 'b': None}"})]),
             Outcome(calls=(Call("query", {"filter": {"a": True, "b": None}}),))),
        Case("white space of a string is its own",
             write_lines("", [("write", {"text": "\n  x \n"})]),
             Outcome(calls=(Call("write", {"text": "\n  x \n"}),))),
        Case("text behind", f"{NOW_LINES}\nDone.", Outcome(None, "Done.", (Call("now", {}),)),
             vllm="drops text behind a call"),
        Case("no end of the call",
             "<tool_call>add\n<arg_key>a</arg_key>\n<arg_value>3</arg_value>\n",
             Outcome(calls=(Call("add", {"a": 3}),)), vllm="gives the markup as content"),
        Case("cut in a value", "<tool_call>write\n<arg_key>text</arg_key>\n<arg_value>ab",
             Outcome(calls=(Call("write", '{"text": "ab'),)), finish="length",
             vllm="gives the markup as content"),
    ),
)  # fmt: skip


def write_iquest(content: str, calls: Sequence[Invocation]) -> str:
    """Write as SGLang's parser of IQuest Q1 reads."""
    return write(content, calls, "\n", "iquest_tool_call")


NOW_IQUEST = write_iquest("", [("now", {})])

IQUEST_Q1 = Family(
    "iquest_q1",
    write_iquest,
    markers=tuple(marker.replace("tool_call", "iquest_tool_call") for marker in GLM45.markers),
    reasoning_parser="iquest_q1",
    tags=Tags(),
    prompt="<|im_start|>assistant\n<think>\n\n</think>\n\n",
    cases=(
        Case("no lines", write("", PAIR).replace("tool_call>", "iquest_tool_call>"),
             Outcome(calls=PAIR_CALLS)),
        Case("nobody opens the reasoning", f"I look.</think>It is{NOW_IQUEST}",
             Outcome("I look.", "It is", (Call("now", {}),)), prompt="<|im_start|>assistant\n"),
        Case("a call inside reasoning", f"I look.{NOW_IQUEST}",
             Outcome("I look.", None, (Call("now", {}),)), prompt="<|im_start|>assistant\n"),
        Case("another model's marker", "Use <tool_call> to call.",
             Outcome(None, "Use <tool_call> to call.")),
        Case("text behind", f"{NOW_IQUEST}\nDone.",
             Outcome(None, "Done.", (Call("now", {}),))),
        Case("cut in a value",
             "<iquest_tool_call>write\n<arg_key>text</arg_key><arg_value>ab",
             Outcome(calls=(Call("write", '{"text": "ab'),)), finish="length"),
    ),
)  # fmt: skip


def write_coder(content: str, calls: Sequence[Invocation]) -> str:
    """Write as vLLM's parser of IQuest Coder V2 reads."""
    return write(content, calls, "\n", "iquestcoder_tool_call")


IQUEST_CODER_V2 = Family(
    "iquest_coder_v2",
    write_coder,
    markers=tuple(marker.replace("tool_call", "iquestcoder_tool_call") for marker in GLM45.markers),
    reasoning_parser="iquest_coder_v2",
    tags=Tags(),
    prompt="<|im_start|>assistant\n<think></think>",
    cases=(
        Case("no lines", write("I do.", PAIR, tag="iquestcoder_tool_call"),
             Outcome(None, "I do.", PAIR_CALLS)),
        Case("undeclared parameters are JSON if they can be",
             write_coder("", [("free", {"x": "3", "y": "z"})]),
             Outcome(calls=(Call("free", {"x": 3, "y": "z"}),)), tools=FREE),
        Case("IQuest Q1's marker", "Use <iquest_tool_call> to call.",
             Outcome(None, "Use <iquest_tool_call> to call.")),
    ),
)  # fmt: skip

LING3 = Family(
    "ling3",
    write,
    markers=GLM45.markers,
    special=("<|role_end|>",),
    reasoning_parser="ling3",
    tags=GLM45.tags,
    cases=(
        Case("the end of its turn", f"Hi.{NOW}<|role_end|>",
             Outcome(None, "Hi.", (Call("now", {}),))),
        Case("text after a call from an open thought", f"I look.{NOW}\n{NOW}Done.",
             Outcome("I look.", "Done.", (Call("now", {}), Call("now", {}))),
             prompt="<|im_start|>assistant\n<think>"),
    ),
)  # fmt: skip

FAMILIES = (GLM45, LING3, POOLSIDE_V1, IQUEST_Q1, IQUEST_CODER_V2)
