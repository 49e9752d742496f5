"""Public chat templates as writers of calls, and the parsers that `auto` finds for them."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
from backedge.base.json_types import JsonObject
from backedge.parsers.base import ParserRequest
from backedge.parsers.detection import Evidence, detect_reasoning, detect_tool_calls
from backedge.parsers.events import Event
from backedge.parsers.format import Format
from backedge.parsers.linear_parsers import LinearParsers, Vocabulary
from backedge.templates.auto_parsers import probe_loaded
from backedge.templates.chat_template import format_tools
from backedge.templates.environment import LoadedTemplate

from tests.conformance.cases import OUTSIDE
from tests.parsers.driver import cut_tokens, run
from tests.parsers.families.family import Invocation

TEMPLATES = {
    path.stem: path
    for folder in ("llamacpp_templates", "vllm_templates")
    for path in sorted((OUTSIDE / folder).glob("*.jinja"))
}
if not TEMPLATES:
    pytest.skip("there are no templates beside the checkout", allow_module_level=True)

QUESTION = "BACKEDGE-QUESTION"
SPECIAL = {"bos_token": "<s>", "eos_token": "</s>"}
# The forms of a call's id and arguments that templates want.
CALL_FORMS = (("call0000{}", False), ("functions.{1}:{0}", False), ("call0000{}", True))
# The beginning of a marker that was cut off with the common part of two texts.
CUT_MARKER = re.compile(r"[<\[◁][^>\]▷]*\Z")
SUFFIXED = re.compile(r"</?\w+:opensource>")


@dataclass(frozen=True)
class OutsideTemplate:
    """A template, and the parsers for it. format: None if no parser of ours reads its calls.

    ids: of its marker tokens, as far as a parser must know them.
    """

    name: str
    source: str
    evidence: Evidence
    format: Format | None
    parsers: LinearParsers
    ids: dict[str, int]

    def write(
        self, calls: Sequence[Invocation], tools: Sequence[JsonObject], content: str = ""
    ) -> Iterator[str]:
        """Yield what the template writes for an answer with calls, for each form of calls."""
        prompt = self._render([], tools, add_generation_prompt=True)
        for answer in _answers(calls, content) if prompt is not None else ():
            turn = self._render([answer], tools)
            if prompt is not None and turn is not None:
                yield _without_prompt(prompt, turn)

    def _render(
        self,
        answer: Sequence[Any],
        tools: Sequence[JsonObject],
        *,
        add_generation_prompt: bool = False,
    ) -> str | None:
        """Return the text behind the question; None if the template refuses the messages."""
        template = _load(self.source)
        content = [{"type": "text", "text": QUESTION}] if template.reads_parts else QUESTION
        variables: dict[str, Any] = {
            **SPECIAL,
            "messages": [{"role": "user", "content": content}, *answer],
            "tools": format_tools(list(tools), "vllm"),
            "add_generation_prompt": add_generation_prompt,
        }
        try:
            return template.render(variables).rpartition(QUESTION)[2]
        except Exception:  # noqa: BLE001 - a template is the model's code and may raise anything
            return None

    def read(self, turn: str, tools: Sequence[JsonObject], size: int = 0) -> list[Event]:
        """Return the events of a turn, in pieces of `size` characters; whole without it."""
        parser = self.parsers(ParserRequest(tools=list(tools), tool_choice="auto"), [])
        return run(parser, cut_tokens(turn, self.ids, size))


@functools.cache
def load_template(name: str) -> OutsideTemplate:
    """Return a template of `TEMPLATES` with the parsers that `auto` finds."""
    source = TEMPLATES[name].read_text(encoding="utf-8")
    evidence = probe_loaded(_load(source), source, SPECIAL)
    markers = sorted(set(SUFFIXED.findall("".join((*evidence.turns, *evidence.prompts)))))
    ids = {marker: number for number, marker in enumerate(markers, 1)}
    evidence = replace(evidence, tokens=frozenset(ids))
    tools = detect_tool_calls(evidence).format
    reasoning = detect_reasoning(evidence, tools).format if tools is not None else None
    parsers = LinearParsers(tools, reasoning, Vocabulary(ids))
    return OutsideTemplate(name, source, evidence, tools, parsers, ids)


@functools.cache
def _load(source: str) -> LoadedTemplate:
    return LoadedTemplate(source)


def _answers(calls: Sequence[Invocation], content: str) -> list[JsonObject]:
    """Return an answer with these calls in each of `CALL_FORMS`."""
    return [
        {
            "role": "assistant",
            "content": content,
            "tool_calls": [
                {
                    "id": call_id.format(number, name),
                    "type": "function",
                    "function": {
                        "name": name,
                        "arguments": json.dumps(arguments) if as_text else arguments,
                    },
                }
                for number, (name, arguments) in enumerate(calls)
            ],
        }
        for call_id, as_text in CALL_FORMS
    ]


def _without_prompt(prompt: str, turn: str) -> str:
    """Return what the model writes of a turn: all but the beginning that the prompt has."""
    pairs = enumerate(zip(prompt, turn, strict=False))
    length = next((i for i, (a, b) in pairs if a != b), min(len(prompt), len(turn)))
    common = CUT_MARKER.sub("", turn[:length]) if length < len(prompt) else turn[:length]
    return turn[len(common) :]
