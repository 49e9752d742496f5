"""Cuts a case behind each of its tokens, as a limit on the answer's length does."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from backedge.parsers.events import (
    Content,
    Event,
    Reasoning,
    ToolCallArguments,
    ToolCallStarted,
)
from backedge.parsers.forced_calls import wrap_forced_calls

from tests.conformance.cases import Case
from tests.conformance.runner import (
    build_parsers,
    build_request,
    encode_prompt,
    read_prompt,
    tokenize,
)


@dataclass(frozen=True)
class Shown:
    """What a client has been shown. calls: names and arguments."""

    texts: dict[type[Content | Reasoning], str]
    calls: list[tuple[str, str]]

    def begins(self, whole: Shown) -> bool:
        """Whether this is a beginning of `whole`."""
        texts = all(
            whole.texts[kind].rstrip().startswith(text.rstrip())
            for kind, text in self.texts.items()
        )
        calls = zip(self.calls, whole.calls, strict=False)
        return (
            texts
            and len(self.calls) <= len(whole.calls)
            and all(name == other and full.startswith(part)
                    for (name, part), (other, full) in calls)
        )  # fmt: skip


def read_shown(events: list[Event]) -> Shown:
    texts: dict[type[Content | Reasoning], str] = {Content: "", Reasoning: ""}
    calls: list[tuple[str, str]] = []
    for event in events:
        match event:
            case Content(text) | Reasoning(text):
                texts[type(event)] += text
            case ToolCallStarted(_, name):
                calls.append((name, ""))
            case ToolCallArguments(index, text):
                calls[index] = (calls[index][0], calls[index][1] + text)
    return Shown(texts, calls)


def split(case: Case) -> list[tuple[str, int]]:
    """Return the case's tokens: markers, words and single characters."""
    return [
        (piece, token)
        for text, token in tokenize(case.names, [case.output])
        for piece in ([text] if token else re.findall(r"\w+|\W", text))
    ]


def feed(case: Case, tokens: list[tuple[str, int]], *, cut: bool) -> list[Event]:
    request, prompt = build_request(case), read_prompt(case)
    parsers = build_parsers(case.names, prompt)
    parser = wrap_forced_calls(parsers(request, encode_prompt(case.names, prompt)), request)
    events = [event for text, token in tokens for event in parser.feed(text, [token])]
    return events + parser.finish(cut=cut)


def find_faults(case: Case) -> Iterator[tuple[int, bool]]:
    """Yield by number of tokens whether an answer cut there shows what the whole one does not."""
    tokens = split(case)
    whole = read_shown(feed(case, tokens, cut=case.finish == "length"))
    for end in range(len(tokens)):
        yield end, not read_shown(feed(case, tokens[:end], cut=True)).begins(whole)
