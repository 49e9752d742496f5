"""Apertus: `[{"name": {...}}]` between tags, inside its deliberation or behind it."""

from __future__ import annotations

import json
from collections.abc import Sequence

from benchmarks.samples.sample import Call, Outcome
from tests.parsers.families.family import Case, Family, Invocation, Tags
from tests.parsers.families.json_objects import HI, HI_JSON

START, END = "<|tools_prefix|>", "<|tools_suffix|>"


def write(content: str, calls: Sequence[Invocation]) -> str:
    """Write as vLLM's chat template for Apertus does."""
    written = ", ".join(
        json.dumps({name: arguments}, ensure_ascii=False) for name, arguments in calls
    )
    return content + (f"{START}[{written}]{END}" if calls else "")


NOW = Call("now", {})
TEXT = f"a {END} b"

FAMILY = Family(
    "apertus",
    write,
    special=(START, END, "<|inner_prefix|>", "<|inner_suffix|>"),
    reasoning_parser="apertus",
    tags=Tags("<|inner_prefix|>", "<|inner_suffix|>", prompt_open="<|inner_prefix|>",
              prompt_closed="<|inner_prefix|><|inner_suffix|>"),
    vllm="apertus",
    cases=(
        Case("end marker in a string", write("", [("write", {"text": TEXT})]),
             Outcome(calls=(Call("write", {"text": TEXT}),)),
             vllm="ends the calls at the first end marker, inside the string"),
        Case("no white space", f'{START}[{{"write":{{"path":"a","text":"hi"}}}}]{END}',
             Outcome(calls=(HI,))),
        Case("white space everywhere", f'{START}\n[\n {{ "write" : {HI_JSON}\n }}\n]\n{END}',
             Outcome(calls=(HI,))),
        Case("two calls in one object", f'{START}[{{"now": {{}}, "write": {HI_JSON}}}]{END}',
             Outcome(calls=(NOW, HI)), vllm="reads the first key only"),
        Case("null arguments", f'{START}[{{"now": null}}]{END}', Outcome(calls=(NOW,)),
             vllm="gives null, which is no object"),
        Case("one object", f'{START}{{"now": {{}}}}{END}', Outcome(calls=(NOW,))),
        Case("a parameter called name",
             f'{START}[{{"add": {{"name": "x", "arguments": {{}}}}}}]{END}',
             Outcome(calls=(Call("add", {"name": "x", "arguments": {}}),))),
        Case("no end marker", f'{START}[{{"write": {HI_JSON}}}]', Outcome(calls=(HI,))),
        Case("a bracket missing", f'{START}[{{"write": {HI_JSON}{END}', Outcome(calls=(HI,))),
        Case("text behind", f'{START}[{{"now": {{}}}}]{END}\nDone.',
             Outcome(None, "Done.", (NOW,))),
        Case("two sections", 2 * f'{START}[{{"now": {{}}}}]{END}', Outcome(calls=(NOW, NOW)),
             vllm="gives the second one as content"),
        Case("a marker that begins no call", f"Use {START} to call.",
             Outcome(None, f"Use {START} to call.")),
        Case("reasoning and a call",
             f'<|inner_prefix|>So.<|inner_suffix|>I call.{START}[{{"now": {{}}}}]{END}',
             Outcome("So.", "I call.", (NOW,))),
        Case("a call in reasoning",
             f'<|inner_prefix|>So.{START}[{{"now": {{}}}}]{END} Done.<|inner_suffix|>Yes.',
             Outcome(f'So.{START}[{{"now": {{}}}}]{END} Done.', "Yes.")),
        Case("cut in the name", f'Hi{START}[{{"wri', Outcome(None, "Hi"), finish="length"),
        Case("cut in the arguments", f'{START}[{{"write": {{"path": "a',
             Outcome(calls=(Call("write", '{"path": "a'),)), finish="length",
             vllm="closes the arguments as if they were whole"),
    ),
)  # fmt: skip
