"""Sarashina: a list of call objects as Python writes them, with or without a token before it."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.samples.sample import Call, Outcome
from tests.parsers.families.family import Case, Family, Invocation
from tests.parsers.families.json_objects import call_array, json_cases, to_json

TOKEN = "<|tool_calls|>"


def enclose(call: str) -> str:
    return f"{TOKEN}[{call}]"


def write(content: str, calls: Sequence[Invocation]) -> str:
    """Write lists of Python's literals behind the token."""
    objects = [{"name": name, "arguments": arguments} for name, arguments in calls]
    return content + (f"{TOKEN}{objects}" if calls else "")


NOW = Call("now", {})

FAMILY = Family(
    "sarashina",
    write,
    special=(TOKEN,),
    cases=(
        *json_cases(enclose, end="}]"),
        Case("no token", "[{'name': 'now', 'arguments': {}}]", Outcome(calls=(NOW,))),
        Case("no token, JSON", call_array([("now", {})]), Outcome(calls=(NOW,))),
        Case("a list that is no call", "[1, 2] are numbers.", Outcome(None, "[1, 2] are numbers.")),
        Case("text behind", f"{enclose(to_json('now', {}))}\nDone.",
             Outcome(None, "Done.", (NOW,))),
        Case("cut in the arguments", f"{TOKEN}[{{'name': 'write', 'arguments': {{'path': 'a",
             Outcome(calls=(Call("write", '{"path": "a'),)), finish="length"),
    ),
)  # fmt: skip
