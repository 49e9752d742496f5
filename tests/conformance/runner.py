"""Runs a case through the linear parsers, at any chunking, and compares ordered events."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from backedge.parsers.base import ParserFactory, ParserNames, ParserRequest
from backedge.parsers.events import (
    Content,
    Reasoning,
    ToolCallArguments,
    ToolCallCut,
    ToolCallStarted,
    join,
)
from backedge.parsers.events import Event as ParserEvent
from backedge.parsers.forced_calls import wrap_forced_calls
from backedge.parsers.linear_parsers import Vocabulary
from backedge.parsers.parser_lookup import linear_parsers, reasoning_format, tool_format

from tests.conformance.cases import Case, Event
from tests.parsers.families import FAMILIES

TEXT_KINDS = {Content: "text", Reasoning: "reasoning"}
# Prompts that end in an open or a closed thought, where a header says whose text follows.
PROMPTS = {
    "muse_glimmer": {
        "Reasoning": "<|start|>assistant to=self<|message|>",
        "Response": "<|start|>assistant to=user<|message|>",
    },
}
TEXT_TOKEN = 0
FIRST_MARKER_TOKEN = 1


@functools.cache
def build_vocabulary(names: ParserNames) -> dict[str, int]:
    formats = tool_format(names.tool_call or ""), reasoning_format(names.reasoning or "")
    families = [FAMILIES[format_.name] for format_ in formats if format_ is not None]
    markers = dict.fromkeys(
        marker for family in families for marker in (*family.markers, *family.special)
    )
    return {marker: token_id for token_id, marker in enumerate(markers, FIRST_MARKER_TOKEN)}


@functools.cache
def build_parsers(names: ParserNames, prompt: str) -> ParserFactory:
    vocabulary = build_vocabulary(names)
    texts = {token_id: marker for marker, token_id in vocabulary.items()}
    # The text between markers is one token each.
    texts |= dict(zip(encode_prompt(names, prompt), split_prompt(names, prompt), strict=True))
    return linear_parsers(
        names, Vocabulary(vocabulary, decode=lambda ids: "".join(map(texts.__getitem__, ids)))
    )


def split_prompt(names: ParserNames, prompt: str) -> list[str]:
    """Return the prompt's markers and the texts between them."""
    return [text for text, _ in tokenize(names, [prompt])]


def encode_prompt(names: ParserNames, prompt: str) -> list[int]:
    """Return the prompt's tokens; one for each text between markers."""
    return [
        -number if token == TEXT_TOKEN else token
        for number, (_, token) in enumerate(tokenize(names, [prompt]), start=1)
    ]


def read_prompt(case: Case) -> str:
    """Return how the prompt ends."""
    format_ = reasoning_format(case.names.reasoning or "")
    if format_ is None or case.start is None:
        return ""
    if format_.name in PROMPTS:
        return PROMPTS[format_.name][case.start]
    tags = FAMILIES[format_.name].tags
    assert tags is not None
    return (tags.prompt_open if case.start == "Reasoning" else tags.prompt_closed) or ""


def build_request(case: Case) -> ParserRequest:
    forced = case.mode != "Native"
    return ParserRequest(
        tools=list(case.tools),
        tool_choice=(
            {"type": "function", "function": {"name": case.named_tool}}
            if case.named_tool
            else "required"
            if forced
            else "auto"
        ),
        json_calls=forced,
        chat_template_kwargs={"enable_thinking": case.start == "Reasoning"},
    )


def tokenize(names: ParserNames, chunks: Iterable[str]) -> list[tuple[str, int]]:
    """Return the chunks' texts and tokens; a marker of the vocabulary is a token of its own."""
    vocabulary = build_vocabulary(names)
    longest_first = sorted(vocabulary, key=len, reverse=True)
    split = re.compile("(" + "|".join(map(re.escape, longest_first)) + ")") if vocabulary else None
    pieces = (piece for chunk in chunks for piece in (split.split(chunk) if split else [chunk]))
    return [(piece, vocabulary.get(piece, TEXT_TOKEN)) for piece in pieces if piece]


def run(case: Case, length: int | None = None) -> list[Event]:
    """Return the events that the parsers read from text in pieces of this many characters."""
    request = build_request(case)
    prompt = read_prompt(case)
    parsers = build_parsers(case.names, prompt)
    parser = wrap_forced_calls(parsers(request, encode_prompt(case.names, prompt)), request)
    events: list[ParserEvent] = []
    for text, token in tokenize(case.names, [case.output]):
        step = length if length is not None and token == TEXT_TOKEN else len(text)
        for start in range(0, len(text), step):
            events += parser.feed(text[start : start + step], [token])
    events += parser.finish(cut=case.finish == "length")
    return read_events(join(events))


def read_events(events: Sequence[ParserEvent]) -> list[Event]:
    """Return what a client gets; arguments that are no JSON stay text."""
    read: list[Event] = []
    for event in events:
        match event:
            case Content(text) | Reasoning(text):
                read.append((TEXT_KINDS[type(event)], text))
            case ToolCallStarted(_, name):
                read.append(("call", (name, "")))
            case ToolCallArguments(_, text):
                name, arguments = read[-1][1]
                read[-1] = ("call", (name, arguments + text))
            case ToolCallCut(index, _):
                # What the model has left unfinished is no call.
                if index is not None:
                    read.pop()
    return [_decode(event) for event in read]


def _decode(event: Event) -> Event:
    kind, value = event
    if kind != "call":
        return event
    name, arguments = value
    try:
        return kind, (name, json.loads(arguments))
    except ValueError:
        return event


def differs(events: Sequence[Event], golden: Sequence[Event]) -> bool:
    """Whether two sequences differ, but for key order, 1 and 1.0, and how text is divided."""
    return _canonical(events) != _canonical(golden)


def without_outer_space(events: Iterable[Event]) -> list[Event]:
    """Return the events without white space around text, and without text of nothing else."""
    stripped = [
        (kind, value) if kind == "call" else (kind, value.strip()) for kind, value in events
    ]
    return [(kind, value) for kind, value in stripped if kind == "call" or value]


def _canonical(events: Sequence[Event]) -> list[Any]:
    joined: list[Event] = []
    for kind, value in events:
        if kind != "call" and joined and joined[-1][0] == kind:
            joined[-1] = (kind, joined[-1][1] + value)
        elif kind == "call" or value:
            joined.append((kind, value))
    return [(kind, _tag(value) if kind == "call" else value) for kind, value in joined]


def _tag(value: Any) -> Any:
    """Return a value in which true is not 1."""
    match value:
        case bool():
            return "bool", value
        case dict():
            return {key: _tag(member) for key, member in value.items()}
        case list() | tuple():
            return [_tag(item) for item in value]
        case _:
            return value
