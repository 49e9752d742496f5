"""Llama 3 and 4: bare JSON at the start of the answer, or behind `<|python_tag|>`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from benchmarks.samples.sample import Call, Outcome
from tests.parsers.families.family import Case, Family, Invocation, function
from tests.parsers.families.json_objects import HI, USUAL, WANTS_KEY, json_cases, to_json

KEY = "parameters"


def write(content: str, calls: Sequence[Invocation]) -> str:
    """Write as vLLM's template for Llama 3.1 does; after text the token for code begins calls."""
    written = "; ".join(to_json(name, arguments, KEY) for name, arguments in calls)
    return content + ("<|python_tag|>" if content and calls else "") + written


# Calls that the models write although no template does: meta-llama/llama-models#266 and #169.
SEEN: tuple[Invocation, ...] = (
    ("write", {"path": "a", "text": 'it\'s </function>, "so"'}),
    ("add", {"a": -1, "b": 0.5, "exact": True, "label": None}),
    ("query", {"filter": {"a": [1, {"b": "c"}]}, "tags": ["x", "y"]}),
    ("now", {}),
)


def python_cases() -> Iterator[Case]:
    """Yield calls as Python behind the tokens for code, and calls in tags of functions."""
    for name, arguments in SEEN:
        python = f"{name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})"
        call = Call(name, arguments)
        for begin, end in (("<|python_tag|>", ""), ("<|python_start|>", "<|python_end|>")):
            yield Case(
                f"{name} as Python in {begin}",
                f"{begin}{python}{end}",
                Outcome(calls=(call,)),
                vllm=NO_PYTHON,
            )
            yield Case(
                f"{name} in a list in {begin}",
                f"So.{begin}[{python}, {python}]{end}",
                Outcome(None, "So.", (call, call)),
                vllm=NO_PYTHON,
            )
        tags = f"<function={name}>{json.dumps(arguments)}</function>"
        yield Case(
            f"{name} in tags",
            f"So.\n{tags}\n{tags}Done.",
            Outcome(None, "So.\nDone.", (call, call)),
            vllm=NO_PYTHON,
        )
    for text in (
        '<|python_tag|>other(path="a")',
        "<|python_tag|>write(path=x)",
        '<function=other>{"path": "a"}</function>',
        "Use <function=write> for it.",
        "<function=write><parameter=path>a</parameter></function>",
    ):
        yield Case(f"no call {text[:30]}", text, Outcome(None, text))  # fmt: skip


NO_PYTHON = "reads JSON alone"
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
        *python_cases(),
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
