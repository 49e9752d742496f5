"""Sessions of transformers' own parser of descriptions, as it recorded them.

`hf` has made-up ones, `compiled` those of public checkpoints. Where the prompt has begun a text of
the answer, transformers returns it whole; a stream has only the rest.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from backedge.base.errors import SetupError
from backedge.parsers.response_template import (
    CALLS,
    REASONING_FIELDS,
    compile_description,
    name_description,
)

from tests.conformance.cases import OUTSIDE
from tests.parsers.families.family import function
from tests.parsers.made_up import TOOL

SESSIONS = OUTSIDE / "response_templates" / "hf"
PUBLIC = OUTSIDE / "response_templates" / "compiled"

Value = tuple[str, str, list[tuple[str, Any]]]
"""The reasoning, the content and the calls of an answer."""


class Session(NamedTuple):
    """An answer, and what transformers makes of it."""

    id: str
    description: dict[str, Any]
    prompt: str
    text: str
    tools: list[Any]
    expected: Value

    @property
    def name(self) -> str:
        return name_description(self.description)


def read_python(found: dict[str, Any]) -> Any:
    """Return a value of Python that JSON cannot write as it is."""
    match found:
        case {"$float": text}:
            return float.fromhex(text)
        case {"$dict": items}:
            return dict(items)
    return found


def read_lines(folder: Path, name: str) -> list[Any]:
    paths = sorted(folder.glob(f"{name}*.jsonl"))
    return [json.loads(line, object_hook=read_python) for path in paths for line in path.open()]


def read_templates(folder: Path) -> dict[str, Any]:
    """Return the descriptions that transformers loads, by id."""
    return {
        row["id"]: row["template"] for row in read_lines(folder, "templates") if row["hf"].get("ok")
    }


def compile_all() -> tuple[dict[str, Any], dict[str, str]]:
    """Return the descriptions that are tables, and why the others are not, by id."""
    tables, refused = {}, {}
    for id_, template in read_templates(SESSIONS).items():
        try:
            compile_description(name_description(template))
        except SetupError as error:
            refused[id_] = str(error)
        else:
            tables[id_] = template
    return tables, refused


def read_value(message: dict[str, Any]) -> Value:
    """Return the value of a message. Raises KeyError for calls of another form than OpenAI's."""
    calls = [call["function"] for call in message.get(CALLS, ())]
    return (
        (message.get("thinking") or message.get("reasoning_content") or "").strip(),
        message.get("content", "").strip(),
        [(call["name"], call.get("arguments", {})) for call in calls],
    )


def read_streamed(trace: Sequence[Any]) -> Value:
    """Return the value of the events after the prompt's."""
    events = [event for kind, *_, found in trace if kind != "init" for event in found]
    texts = {"": ""}
    calls: list[Any] = []
    for event in events:
        if event["type"] == "region_chunk":
            texts[event["field"]] = texts.get(event["field"], "") + event["text"]
        elif event["type"] == "region_close" and event["field"] == CALLS:
            calls += value if isinstance(value := event["value"], list) else [value]
    return read_value({**texts, CALLS: calls})


def drop_begun(text: str, prompt: str) -> str:
    """Return `text` without the beginning with which the prompt ends."""
    begun = max(at for at in range(len(text) + 1) if prompt.rstrip().endswith(text[:at].rstrip()))
    return text[begun:].strip()


def read_sessions() -> Iterator[Session]:
    """Yield the sessions of descriptions with reasoning or calls that have a value."""
    known_tools = json.loads((SESSIONS / "tools.json").read_text())
    templates = read_templates(SESSIONS)
    for row in read_lines(SESSIONS, "sessions"):
        template, final = templates.get(row["template"]), row["unary"].get("final", ("",))
        # The tails of prompts were paired with any text.
        if template is None or final[0] != "final" or "#tail" in row["id"]:
            continue
        trace = row["unary"]["trace"]
        try:
            value = read_streamed(trace) if row["prefix"] else read_value(final[1])
        except (KeyError, TypeError, AttributeError):
            continue
        tools = known_tools.get(row.get("tools"), ())
        yield from build(row["id"], template, row["prefix"], row["text"], tools, value)
    known_tools = json.loads((PUBLIC / "tools.json").read_text(), object_hook=read_python)
    templates = read_templates(PUBLIC)
    for row in read_lines(PUBLIC, "sessions"):
        reasoning, content, calls = read_value(row["transformers"]["message"])
        prompt = row["prompt"]
        if not {"prefill", "no-anchor"}.isdisjoint(row["covers"]):
            reasoning, content = drop_begun(reasoning, prompt), drop_begun(content, prompt)
        text = row["output"] + (row.get("stop") or "")
        tools = known_tools.get(row.get("tools"), ())
        value = reasoning, content, calls
        yield from build(row["id"], templates[row["template"]], prompt, text, tools, value)


def build(
    id_: str, template: dict[str, Any], prompt: str, text: str, tools: Sequence[Any], value: Value
) -> Iterator[Session]:
    """Yield the session unless its description has neither calls nor reasoning."""
    if (REASONING_FIELDS | {CALLS}).isdisjoint(template["fields"]):
        return
    declared = [tool if "function" in tool else {"function": tool} for tool in tools]
    names = {tool["function"]["name"] for tool in declared}
    # A call of an undeclared function is text.
    declared += [function(name) for name, _ in value[2] if name not in names] or [TOOL]
    yield Session(id_, template, prompt or "", text, declared, value)


def read_outcome(outcome: Any) -> Value:
    """Return the value of an answer that we have parsed."""
    calls = [(call.name, call.arguments) for call in outcome.calls]
    return (outcome.reasoning or "").strip(), (outcome.content or "").strip(), calls


def compare(
    sessions: Sequence[Session], parse: Callable[[Session, int], Any], different: set[str]
) -> None:
    """Check that each chunking gives transformers' value, but for those that are `different`."""
    found = set()
    for session in sessions:
        values = set()
        for size in (1, 3, 7, len(session.text) + 1):
            outcome = parse(session, size)
            value = read_outcome(outcome)
            values.add(repr(value))
        assert len(values) == 1, session.id
        if value != session.expected:
            found.add(session.id)
    assert found == different
