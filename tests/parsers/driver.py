"""The driver of the parsers' tests: an output, cut as a test likes, to the events of a client."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from backedge.parsers.base import ParserFactory, ParserNames, ParserRequest, StreamParser
from backedge.parsers.events import Event, join
from backedge.parsers.linear_parsers import Vocabulary
from backedge.parsers.parser_lookup import linear_parsers

from tests.parsers.families.family import TOOLS

Token = tuple[str, int]
"""A token's text, and its id; 0 for all text."""


def cut(text: str, size: int = 0) -> list[str]:
    """Return `text` in pieces of `size` characters; whole without it."""
    return re.findall(rf"(?s).{{1,{size or max(1, len(text))}}}", text)


def cut_at(text: str, cuts: Collection[int]) -> list[str]:
    """Return `text` cut at these positions."""
    positions = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    return [text[start:end] for start, end in itertools.pairwise(positions)]


def cut_tokens(output: str, ids: Mapping[str, int], size: int = 0) -> list[Token]:
    """Return the tokens of `output`: the markers of `ids`, and the text between them as `cut`."""
    markers = sorted(ids, key=len, reverse=True)
    parts = re.split(f"({'|'.join(map(re.escape, markers)) or '(?!)'})", output)
    return [
        token
        for part in parts
        for token in (
            [(part, ids[part])] if part in ids else [(text, 0) for text in cut(part, size)]
        )
    ]


def run(parser: StreamParser, pieces: Iterable[str | Token], *, cut: bool = False) -> list[Event]:
    """Return the joined events of these pieces. cut: a limit ends the output."""
    events: list[Event] = []
    for piece in pieces:
        text, ids = (piece, ()) if isinstance(piece, str) else (piece[0], piece[1:])
        events += parser.feed(text, ids)
    return join(events + parser.finish(cut=cut))


# Compiling a format takes longer than to parse an output.
@functools.cache
def _build_parsers(names: ParserNames, ids: tuple[Token, ...]) -> ParserFactory:
    return linear_parsers(names, Vocabulary(dict(ids)))


def read(
    names: ParserNames | str,
    output: str,
    size: int = 0,
    *,
    ids: Mapping[str, int] | None = None,
    tools: Sequence[Any] = TOOLS,
    cut: bool = False,
    **fields: Any,
) -> list[Event]:
    """Return the events of `output`, in pieces of `size` characters.

    names: a str is a tool parser's. ids: markers that are tokens. fields: of the request.
    """
    if isinstance(names, str):
        names = ParserNames(names)
    request = ParserRequest(tools=list(tools), tool_choice="auto", **fields)
    parser = _build_parsers(names, tuple((ids or {}).items()))(request, [])
    return run(parser, cut_tokens(output, ids or {}, size), cut=cut)
