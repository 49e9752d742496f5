"""Llama 3 and 4: bare JSON at the start of the answer, or behind `<|python_tag|>`."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.samples.sample import Call, Outcome
from tests.parsers.families.family import Case, Family, Invocation, function
from tests.parsers.families.json_objects import HI, USUAL, WANTS_KEY, json_cases, to_json

KEY = "parameters"


def write(content: str, calls: Sequence[Invocation]) -> str:
    """Write as vLLM's template for Llama 3.1 does; after text the token for code begins calls."""
    written = "; ".join(to_json(name, arguments, KEY) for name, arguments in calls)
    return content + ("<|python_tag|>" if content and calls else "") + written


PERSON = '{"name": "Ann", "age": 3}'

FAMILY = Family(
    "llama3_json",
    write,
    special=("<|python_tag|>", "<|python_start|>", "<|python_end|>"),
    vllm="llama3_json",
    vllm_differs=dict.fromkeys(("text and a call", "scripts"), "drops the text in front of a call"),
    cases=(
        *json_cases(str, key=KEY, vllm=USUAL | WANTS_KEY),
        Case("announced as code",
             f'<|python_tag|>{to_json("write", {"path": "a", "text": "hi"}, KEY)}',
             Outcome(calls=(HI,))),
        Case("between Llama 4's tokens for code",
             f'<|python_start|>{to_json("write", {"path": "a", "text": "hi"}, KEY)}<|python_end|>',
             Outcome(calls=(HI,))),
        Case("two calls between Llama 4's tokens, and text",
             f"So.<|python_start|>{write('', (('now', {}), ('now', {})))}<|python_end|>Done.",
             Outcome(None, "So.Done.", (Call("now", {}),) * 2), vllm="drops the text around calls"),
        Case("Llama 4's code that is no JSON", "<|python_start|>print(1)",
             Outcome(None, "<|python_start|>print(1)")),
        Case("arguments instead of parameters", to_json("write", {"path": "a", "text": "hi"}),
             Outcome(calls=(HI,))),
        Case("one per line", "\n".join(to_json("now", {}, KEY) for _ in range(2)),
             Outcome(calls=(Call("now", {}),) * 2)),
        Case("announced twice",
             f"<|python_tag|>{to_json('now', {}, KEY)}<|python_tag|>{to_json('now', {}, KEY)}",
             Outcome(calls=(Call("now", {}),) * 2)),
        Case("code that is no JSON", '<|python_tag|>search.call(query="x")',
             Outcome(None, '<|python_tag|>search.call(query="x")')),
        Case("an object that is no call", '{"result": [1, 2]}',
             Outcome(None, '{"result": [1, 2]}')),
        Case("an object with a name", PERSON, Outcome(None, PERSON)),
        Case("a function that is not declared", to_json("other", {"x": 1}, KEY),
             Outcome(None, to_json("other", {"x": 1}, KEY)), tools=(function("now"),),
             vllm="takes any object with these keys for a call"),
        Case("JSON behind text", f"It is {to_json('now', {}, KEY)}",
             Outcome(None, f"It is {to_json('now', {}, KEY)}"),
             vllm="takes the first object anywhere and drops the text"),
        Case("text behind", to_json("now", {}, KEY) + "\nDone.",
             Outcome(None, "Done.", (Call("now", {}),)), vllm="drops text behind a call"),
        Case("cut in the name", '{"name": "wri', Outcome(), finish="length",
             vllm="gives the markup as content"),
        Case("cut in the arguments", '{"name": "write", "parameters": {"path": "a',
             Outcome(calls=(Call("write", '{"path": "a'),)), finish="length",
             vllm="gives the markup as content"),
    ),
)  # fmt: skip
