"""GigaChat 3: a call is a message of the role "function call" or follows `<|function_call|>`."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.samples.sample import Call, Outcome
from tests.parsers.families.family import Case, Family, Invocation
from tests.parsers.families.json_objects import HI, USUAL, WANTS_KEY, json_cases, to_json

START = "<|message_sep|>\n\nfunction call<|role_sep|>\n"


def write(content: str, calls: Sequence[Invocation]) -> str:
    """Write as vLLM's parser describes it."""
    return content + "".join(START + to_json(*call) for call in calls)


# It allows control characters in strings.
NOT_STRICT = {
    id_: why for id_, why in (USUAL | WANTS_KEY).items() if id_ != "a line break in a string"
}
NOW = Call("now", {})

FAMILY = Family(
    "gigachat3",
    write,
    special=("<|message_sep|>", "<|role_sep|>", "<|function_call|>"),
    vllm="gigachat3",
    vllm_differs=dict.fromkeys(("two calls", "three of one", "a call behind one without arguments"),
                               "gives the markup as content where there are two calls"),
    cases=(
        *json_cases(lambda call: START + call, end="<|message_sep|>", vllm=NOT_STRICT),
        Case("its own token", f"<|function_call|>{to_json('write', {'path': 'a', 'text': 'hi'})}",
             Outcome(calls=(HI,))),
        Case("text and its own token", f"I call.<|function_call|>{to_json('now', {})}",
             Outcome(None, "I call.", (NOW,))),
        Case("text behind", f"<|function_call|>{to_json('now', {})}\nDone.",
             Outcome(None, "Done.", (NOW,)), vllm="wants nothing behind the object"),
        Case("the end of the message", "Yes.<|message_sep|>\n\n", Outcome(None, "Yes.")),
        Case("the end of the message behind a call",
             f"{START}{to_json('now', {})}<|message_sep|>\n\n", Outcome(calls=(NOW,)),
             vllm="wants nothing behind the object"),
        Case("a token that begins no call", "Use <|function_call|> to call.",
             Outcome(None, "Use <|function_call|> to call.")),
        Case("cut in the name", f'Hi{START}{{"name": "wri', Outcome(None, "Hi"), finish="length",
             vllm="gives the markup as content"),
        Case("cut in the arguments", f'{START}{{"name": "write", "arguments": {{"path": "a',
             Outcome(calls=(Call("write", '{"path": "a'),)), finish="length",
             vllm="gives the markup as content"),
    ),
)  # fmt: skip
