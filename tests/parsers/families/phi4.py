"""Phi 4 mini: `functools[{...}]`."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.samples.sample import Call, Outcome
from tests.parsers.families.family import Case, Family, Invocation
from tests.parsers.families.json_objects import USUAL, WANTS_KEY, call_array, json_cases


def write(content: str, calls: Sequence[Invocation]) -> str:
    """Write as vLLM's chat template for Phi-4-mini-instruct asks the model to."""
    return content + (f"functools{call_array(calls)}" if calls else "")


ENDS_AT_BRACKET = (
    "ends the calls at the first closing bracket, inside the arguments, and gives nothing"
)
FIRST_BRACKET = dict.fromkeys(
    ("end marker in a string", "further keys", "a parameter that is not declared"), ENDS_AT_BRACKET
)
NOW = Call("now", {})

FAMILY = Family(
    "phi4_mini_json",
    write,
    vllm="phi4_mini_json",
    vllm_differs={
        **dict.fromkeys(("text and a call", "scripts"), "drops the text in front of a call"),
        **dict.fromkeys(("nested", "lists", "braces"), ENDS_AT_BRACKET),
    },
    cases=(
        *json_cases(lambda call: f"functools[{call}]",
                    vllm=USUAL | WANTS_KEY | FIRST_BRACKET),
        Case("parameters instead of arguments",
             f"functools{call_array([('now', {'zone': 'UTC'})], 'parameters')}",
             Outcome(calls=(Call("now", {"zone": "UTC"}),))),
        Case("white space in front of the array", f"functools {call_array([('now', {})])}",
             Outcome(calls=(NOW,)), vllm="wants nothing in front of the array"),
        *(
            Case(f"{space!r} in the array",
                 f'functools{space}[{space}{{"name": "now", "arguments": {{}}}}{space}]',
                 Outcome(calls=(NOW,)), vllm="wants nothing in front of the array")
            for space in ("\r\n", "\n\t ")
        ),
        Case("the word in a sentence", "Import functools and [x] for it.",
             Outcome(None, "Import functools and [x] for it.")),
        Case("a list that is no call", "functools[0]", Outcome(None, "functools[0]")),
        Case("text behind", f"functools{call_array([('now', {})])}\nDone.",
             Outcome(None, "Done.", (NOW,)), vllm="drops text behind a call"),
        Case("cut in the marker", "Hi func", Outcome(None, "Hi func")),
        Case("cut in the name", 'Hi functools[{"name": "wri', Outcome(None, "Hi "), finish="length",
             vllm="gives the markup as content"),
        Case("cut in the arguments", 'functools[{"name": "write", "arguments": {"path": "a',
             Outcome(calls=(Call("write", '{"path": "a'),)), finish="length",
             vllm="gives the markup as content"),
    ),
)  # fmt: skip
