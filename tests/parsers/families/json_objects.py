"""Calls as JSON objects: what the families that write so have in common."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence

from benchmarks.samples.sample import Call, Outcome
from tests.parsers.families.family import Arguments, Case, Invocation

# What vLLM's batch parsers do with these cases, by id.
STRICT = dict.fromkeys(
    ("a line break in a string", "Python's literals", "a trailing comma", "a brace missing"),
    "reads only valid JSON",
) | {"a number in quotes": "keeps the string, which does not validate"}
WANTS_KEY = {"no arguments key": "wants the key"}
KEEPS_NULL = {"null arguments": "gives null, which is no object"}
QUOTES = {"arguments in a string": "quotes the string once more"}
USUAL = STRICT | KEEPS_NULL | QUOTES
ENDS_EARLY = {"end marker in a string": "ends the call at the first end marker, inside the string"}
LENIENT_STREAM = {
    **dict.fromkeys(
        ("a line break in a string", "a trailing comma"), "leaves the arguments invalid"
    ),
    "Python's literals": "drops the call",
}
HI = Call("write", {"path": "a", "text": "hi"})
HI_JSON = '{"path": "a", "text": "hi"}'


def to_json(name: str, arguments: Arguments, key: str = "arguments") -> str:
    """Return a call as chat templates' `tojson` writes it."""
    return json.dumps({"name": name, key: arguments}, ensure_ascii=False)


def call_array(calls: Sequence[Invocation], key: str = "arguments") -> str:
    """Return calls as an array."""
    return "[" + ", ".join(to_json(name, arguments, key) for name, arguments in calls) + "]"


def json_cases(
    enclose: Callable[[str], str],
    *,
    key: str = "arguments",
    end: str = "",
    vllm: Mapping[str, str] | None = None,
) -> tuple[Case, ...]:
    """Return cases that every format of JSON objects must pass.

    wrap: turns one call's object into the output. key: the key of the arguments.
    end: the marker that ends a call, or "".
    vllm: what its batch parser makes of a case instead, by id.
    """
    hi, now = f'{{"name": "write", "{key}": {HI_JSON}}}', (Call("now", {}),)
    text = f"a {end or ']} b'} c"
    rows: tuple[tuple[str, str, tuple[Call, ...]], ...] = (
        ("end marker in a string", to_json("write", {"text": text}, key),
         (Call("write", {"text": text}),)),
        ("arguments first", f'{{"{key}": {HI_JSON}, "name": "write"}}', (HI,)),
        ("no white space", f'{{"name":"write","{key}":{{"path":"a","text":"hi"}}}}', (HI,)),
        ("white space everywhere",
         (f'\n{{\n  "name" : "write" ,\n  "{key}" : {{\n\t"path" : "a",\n'
          f'\t"text" : "hi"\n  }}\n}}\n'),
         (HI,)),
        ("further keys",
         f'{{"type": "function", "name": "write", "{key}": {HI_JSON}, "note": [1, {{}}]}}', (HI,)),
        ("escapes",
         f'{{"name": "write", "{key}": {{"path": "\\u00fc\\ud83d\\udc4b", "text": "\\t\\"\\\\"}}}}',
         (Call("write", {"path": "ü👋", "text": '\t"\\'}),)),
        ("a line break in a string",
         f'{{"name": "write", "{key}": {{"path": "a\nb", "text": "hi"}}}}',
         (Call("write", {"path": "a\nb", "text": "hi"}),)),
        ("Python's literals",
         f"{{'name': 'add', '{key}': {{'a': 1, 'exact': True, 'label': None}}}}",
         (Call("add", {"a": 1, "exact": True, "label": None}),)),
        ("a trailing comma", f'{{"name": "write", "{key}": {{"path": "a", "text": "hi",}},}}',
         (HI,)),
        ("no arguments key", '{"name": "now"}', now),
        ("null arguments", f'{{"name": "now", "{key}": null}}', now),
        ("arguments in a string", f'{{"name": "write", "{key}": {json.dumps(HI_JSON)}}}', (HI,)),
        ("a number in quotes", to_json("add", {"a": "1", "b": 2}, key),
         (Call("add", {"a": 1, "b": 2}),)),
        ("a parameter that is not declared", to_json("now", {"zone": "UTC", "at": [1]}, key),
         (Call("now", {"zone": "UTC", "at": [1]}),)),
        ("a brace missing", hi.removesuffix("}"), (HI,)),
    )  # fmt: skip
    return tuple(
        Case(id_, enclose(written), Outcome(calls=calls), vllm=(vllm or {}).get(id_, ""))
        for id_, written, calls in rows
    )
