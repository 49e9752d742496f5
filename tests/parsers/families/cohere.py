"""Cohere Command A and A Plus: an array of calls, reasoning and the answer, each between tags."""

from __future__ import annotations

import json
from collections.abc import Sequence

from benchmarks.samples.sample import Call, Outcome
from tests.parsers.families.family import Arguments, Case, Family, Invocation, Tags
from tests.parsers.families.json_objects import HI, HI_JSON

START, END = "<|START_ACTION|>", "<|END_ACTION|>"


def to_json(number: int, name: str, arguments: Arguments) -> str:
    return json.dumps(
        {"tool_call_id": f"{number}", "tool_name": name, "parameters": arguments},
        ensure_ascii=False,
    )


def action(calls: Sequence[Invocation]) -> str:
    written = ",\n    ".join(to_json(number, *call) for number, call in enumerate(calls))
    return f"{START}[\n    {written}\n]{END}"


def write(content: str, calls: Sequence[Invocation]) -> str:
    """Write as SGLang's detector quotes the chat template."""
    answer = f"<|START_RESPONSE|>{content}<|END_RESPONSE|>" if content else ""
    return answer + (action(calls) if calls else "")


NOW = Call("now", {})
TEXT = f"a {END} b"

# vLLM's parser needs the package cohere_melody, which its wheel does not bring.
FAMILY = Family(
    "cohere_command3",
    write,
    special=("<|CHATBOT_TOKEN|>",
             *(f"<|{end}_{tag}|>" for tag in ("THINKING", "ACTION", "RESPONSE", "TEXT")
               for end in ("START", "END"))),
    reasoning_parser="cohere_command3",
    tags=Tags("<|START_THINKING|>", "<|END_THINKING|>",
              prompt_open="<|CHATBOT_TOKEN|><|START_THINKING|>",
              prompt_closed="<|CHATBOT_TOKEN|><|START_THINKING|><|END_THINKING|>"),
    cases=(
        Case("an answer in tags",
             "<|START_THINKING|>So.<|END_THINKING|><|START_RESPONSE|>Yes.<|END_RESPONSE|>",
             Outcome("So.", "Yes."), tools=()),
        Case("the answer's tags of Command A Plus",
             "<|START_THINKING|>So.<|END_THINKING|><|START_TEXT|>Yes.<|END_TEXT|>",
             Outcome("So.", "Yes."), tools=()),
        Case("citations",
             "<|START_RESPONSE|>It is <co>42</co: 0:[1,2]> or <co: 0,1>43</co: 0,1>."
             "<|END_RESPONSE|>",
             Outcome(None, "It is 42 or 43."), tools=()),
        Case("citations in reasoning",
             "<|START_THINKING|>I see <co>a</co: 0:[1]> <co: 1>b</co: 1>, no <co: x>."
             "<|END_THINKING|>Yes.",
             Outcome("I see a b, no <co: x>.", "Yes."), tools=()),
        Case("a citation first, and no tags", "<co>42</co: 0:[1]>\nDone.",
             Outcome(None, "42\nDone.")),
        Case("what only looks like a citation", "Use <co: x> and </co: of> so </co>.",
             Outcome(None, "Use <co: x> and </co: of> so </co>.")),
        Case("reasoning and a call",
             f"<|START_THINKING|>So.<|END_THINKING|>{action([('now', {})])}",
             Outcome("So.", None, (NOW,))),
        Case("reasoning opened by the prompt, and a call",
             f"So.<|END_THINKING|>{action([('now', {})])}", Outcome("So.", None, (NOW,)),
             prompt="<|CHATBOT_TOKEN|><|START_THINKING|>"),
        Case("a call in reasoning that has no end", f"<|START_THINKING|>So.{action([('now', {})])}",
             Outcome("So.", None, (NOW,))),
        Case("end marker in a string", action([("write", {"text": TEXT})]),
             Outcome(calls=(Call("write", {"text": TEXT}),))),
        Case("parameters first",
             f'{START}[{{"parameters": {HI_JSON}, "tool_name": "write", "tool_call_id": "0"}}'
             f']{END}',
             Outcome(calls=(HI,))),
        Case("no white space",
             f'{START}[{{"tool_name":"write","parameters":{{"path":"a","text":"hi"}}}}]{END}',
             Outcome(calls=(HI,))),
        Case("no parameters", f'{START}[{{"tool_call_id": "0", "tool_name": "now"}}]{END}',
             Outcome(calls=(NOW,))),
        Case("one object", f"{START}{to_json(0, 'now', {})}{END}", Outcome(calls=(NOW,))),
        Case("no end marker", f"{START}[{to_json(0, 'now', {})}]", Outcome(calls=(NOW,))),
        Case("a brace missing", f"{START}[{to_json(0, 'now', {})[:-1]}{END}",
             Outcome(calls=(NOW,))),
        Case("text behind", f"{action([('now', {})])}\nDone.", Outcome(None, "Done.", (NOW,))),
        Case("an action that is none", f"{START}Nothing.", Outcome(None, f"{START}Nothing.")),
        Case("cut in the name", f'{START}[{{"tool_call_id": "0", "tool_name": "wri', Outcome(),
             finish="length"),
        Case("cut in the parameters", f'{START}[{{"tool_name": "write", "parameters": {{"path": "a',
             Outcome(calls=(Call("write", '{"path": "a'),)), finish="length"),
    ),
)  # fmt: skip
