"""Reads an output with slips as ours, vLLM's and SGLang's parsers do, token by token."""

from __future__ import annotations

import functools
import logging
from collections.abc import Sequence

from backedge.base.errors import SetupError
from backedge.base.json_types import JsonObject
from backedge.parsers.base import ParserFactory, ParserRequest
from backedge.parsers.events import Event, join

from benchmarks.samples.tokenizers import encode
from tests.conformance.peers import SYSTEMS, load_tokenizer
from tests.parsers.families import FAMILIES
from tests.parsers.families.family import TURN, Family
from tests.parsers.sample_model import feed_tokens
from tests.slips.slips import TOOLS

WRITERS = [family for family in FAMILIES.values() if family.write is not None]


def find_parsers(system: str, family: Family) -> ParserFactory | None:
    """Return a system's parsers of a family; None if it has none."""
    try:
        return SYSTEMS[system](family.names)
    except (LookupError, SetupError):
        return None


@functools.cache
def _prompt(family_name: str) -> tuple[int, ...]:
    family = FAMILIES[family_name]
    return tuple(encode(load_tokenizer(family.names), family.prompt or TURN))


def read(
    parsers: ParserFactory, family: Family, output: str, tools: Sequence[JsonObject] = TOOLS
) -> list[Event]:
    """Return what a client gets of an output, fed token by token."""
    tokenizer = load_tokenizer(family.names)
    request = ParserRequest(tools=list(tools), tool_choice="auto")
    parser = parsers(request, list(_prompt(family.name)))
    shows = parsers.shows_special_tokens(request)
    events = feed_tokens(parser, tokenizer, output, skip_special_tokens=not shows)
    return join(events + parser.finish())


def read_or_fail(
    parsers: ParserFactory, family: Family, output: str, tools: Sequence[JsonObject] = TOOLS
) -> Sequence[Event]:
    """Return what a client gets; nothing if the parser raises, which peers' may."""
    try:
        return read(parsers, family, output, tools)
    except Exception as error:  # noqa: BLE001 - a peer's parser may raise anything
        logging.getLogger(__name__).debug("%r: %r", output, error)
        return []
