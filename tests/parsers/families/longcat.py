"""LongCat Flash: Hermes's form in tags of its own, or parameters in tags."""

from __future__ import annotations

import re
from collections.abc import Sequence

from benchmarks.samples.sample import Call, Outcome
from tests.parsers.families.family import Case, Family, Invocation, Tags
from tests.parsers.families.json_objects import (
    ENDS_EARLY,
    HI,
    HI_JSON,
    USUAL,
    WANTS_KEY,
    json_cases,
    to_json,
)


def enclose(call: str) -> str:
    return f"<longcat_tool_call>\n{call}\n</longcat_tool_call>"


def write(content: str, calls: Sequence[Invocation]) -> str:
    """Write as LongCat-Flash-Chat does: nothing stands between calls."""
    return content + "".join(enclose(to_json(*call)) for call in calls)


JSON_ONLY = "reads only JSON"
TAGGED = (
    "<longcat_tool_call>add"
    "<longcat_arg_key>a</longcat_arg_key><longcat_arg_value>3</longcat_arg_value>"
    "<longcat_arg_key>label</longcat_arg_key><longcat_arg_value>x\n<b></longcat_arg_value>"
    "</longcat_tool_call>"
)
LINES = re.sub(r"add(?=<)|</longcat_arg_(?:key|value)>", r"\g<0>\n", TAGGED)

FAMILY = Family(
    "longcat",
    write,
    markers=("<longcat_tool_call>", "</longcat_tool_call>", "<longcat_think>", "</longcat_think>"),
    reasoning_parser="longcat",
    tags=Tags("<longcat_think>", "</longcat_think>", prompt_open="<longcat_think>\n",
              prompt_closed=None),
    vllm="longcat",
    cases=(
        *json_cases(enclose, end="</long"
                              "cat_to"
                              "ol_cal"
                              "l>", vllm=USUAL | WANTS_KEY | ENDS_EARLY),
        Case("parameters in tags", TAGGED,
             Outcome(calls=(Call("add", {"a": 3, "label": "x\n<b>"}),)), vllm=JSON_ONLY),
        Case("parameters in tags, on lines of their own", LINES,
             Outcome(calls=(Call("add", {"a": 3, "label": "x\n<b>"}),)), vllm=JSON_ONLY),
        Case("no parameters in tags", "<longcat_tool_call>now</longcat_tool_call>",
             Outcome(calls=(Call("now", {}),)), vllm=JSON_ONLY),
        Case("cut in a parameter", TAGGED[: TAGGED.index("<b>")],
             Outcome(calls=(Call("add", '{"a": 3, "label": "x\\n'),)), finish="length",
             vllm=JSON_ONLY),
        Case("no end marker", f'<longcat_tool_call>{{"name": "write", "arguments": {HI_JSON}}}',
             Outcome(calls=(HI,))),
        Case("text behind", enclose(to_json("now", {})) + "\nDone.",
             Outcome(None, "Done.", (Call("now", {}),)), vllm="drops text behind a call"),
        Case("a marker that begins no call", "Use <longcat_tool_call> to call.",
             Outcome(None, "Use <longcat_tool_call> to call.")),
        Case("Hermes's marker", '<tool_call>{"name": "now"}</tool_call>',
             Outcome(None, '<tool_call>{"name": "now"}</tool_call>')),
        Case("cut in the name", 'Hi\n<longcat_tool_call>\n{"name": "wri', Outcome(None, "Hi\n"),
             finish="length", vllm="gives the markup as content"),
        Case("cut in the arguments",
             '<longcat_tool_call>\n{"name": "write", "arguments": {"path": "a',
             Outcome(calls=(Call("write", '{"path": "a'),)), finish="length",
             vllm="gives the markup as content"),
    ),
)  # fmt: skip
