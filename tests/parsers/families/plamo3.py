"""PLaMo 3: requests between markers of several tokens, and reasoning."""

from __future__ import annotations

import json
from collections.abc import Sequence

from benchmarks.samples.sample import Call, Outcome
from tests.parsers.families.family import Case, Family, Invocation, Tags

THINK, THINK_END = "<|plamo:begin_think:plamo|>", "<|plamo:end_think:plamo|>"
BEGIN, END = "<|plamo:begin_tool_requests:plamo|>", "<|plamo:end_tool_requests:plamo|>"
REQUEST_END = "<|plamo:end_tool_request:plamo|>"


def write(content: str, calls: Sequence[Invocation]) -> str:
    """Write as vLLM's parser documents it."""
    requests = "".join(
        f"<|plamo:begin_tool_request:plamo|><|plamo:begin_tool_name:plamo|>{name}"
        "<|plamo:end_tool_name:plamo|><|plamo:begin_tool_arguments:plamo|><|plamo:constrain|>json"
        f"<|plamo:msg|>{json.dumps(arguments, ensure_ascii=False)}"
        f"<|plamo:end_tool_arguments:plamo|>{REQUEST_END}"
        for name, arguments in calls
    )
    return content + (BEGIN + requests + END if calls else "")


NOW = write("", [("now", {})])
HI = ("write", {"path": "a", "text": "hi"})
# The last part of each marker is a word of the vocabulary.
LINES = write("", [HI]).replace(":plamo|><", ":plamo|>\n<")

FAMILY = Family(
    "plamo3",
    write,
    special=(
        *("<|plamo:begin_", "<|plamo:end_", ":plamo|>", "<|plamo:constrain|>", "<|plamo:msg|>"),
        "<|plamo:tag|>",
    ),
    reasoning_parser="plamo3",
    tags=Tags(THINK, THINK_END, prompt_open=THINK, prompt_closed=THINK + THINK_END),
    prompt=f"<|im_start|>assistant\n{THINK}{THINK_END}",
    cases=(
        Case("reasoning and a call", f"I look.{THINK_END}It is{NOW}",
             Outcome("I look.", "It is", (Call("now", {}),)),
             prompt=f"<|im_start|>assistant\n{THINK}"),
        Case("a marker on each line", LINES, Outcome(calls=(Call(*HI),))),
        Case("no end of a request", NOW.replace(REQUEST_END, ""),
             Outcome(calls=(Call("now", {}),))),
        Case("the turn's end", "Hi.<|plamo:tag|>", Outcome(None, "Hi.")),
        Case("text behind", f"{NOW}Done.", Outcome(None, "Done.", (Call("now", {}),))),
        Case("a marker that begins no call", f"Use {BEGIN} for it.",
             Outcome(None, f"Use {BEGIN} for it.")),
        Case("cut in a value", write("", [HI]).partition("hi")[0],
             Outcome(calls=(Call("write", '{"path": "a", "text": "'),)), finish="length"),
    ),
)  # fmt: skip
