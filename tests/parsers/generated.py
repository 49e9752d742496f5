"""Random answers of every family: what the model means, and the tokens it writes for that.

Values are drawn from the declared schemas and written by the family's writer, so the meaning is
known. A string may spell a marker of the family: in the tokens that is text, since a tokenizer
writes what a user has typed without its special tokens.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from backedge.parsers.base import ParserFactory, ParserNames, ParserRequest
from backedge.parsers.events import Event, join
from backedge.parsers.linear_parsers import Vocabulary
from backedge.parsers.parser_lookup import linear_parsers, tool_format
from hypothesis import strategies as st

from tests.parsers.families import FAMILIES
from tests.parsers.families.family import TOOLS, Family, Invocation

Token = tuple[str, int]
"""A token's text, and its id; 0 for all text."""

# Stand for the family's markers while an answer is written.
FIRST_STAND_IN = 0xA000
LOOKS_LIKE = (
    *("{", "}", "[1, 2]", '{"a": 1}', "null", "true", "42", "1e5", "None", "f(x=1)"),
    *("```", "\n```\n", "`x`", "<", ">", "</", "/>", "&amp;", "<b>", "=", ":", ",", ";"),
    *('"', "'", "\\", "\\n", "\n", "\t", " ", "  ", "def f():\n    return 1", "# no"),
    *("é", "世", "👋🏽", "Ω", "\u00a0", "word", "two words", "http://x/y?a=b&c=d"),
)


@dataclass(frozen=True)
class Answer:
    """An answer. calls: with decoded arguments. tokens: as the model writes it."""

    content: str
    calls: tuple[Invocation, ...]
    tokens: tuple[Token, ...]


def marker_ids(family: Family) -> dict[str, int]:
    """Return the ids of the family's tokens."""
    markers = dict.fromkeys((*family.markers, *family.special))
    return {marker: token for token, marker in enumerate(markers, start=1)}


def answers(name: str) -> st.SearchStrategy[Answer]:
    """Return random answers of a family that has tool calls."""
    family = FAMILIES[name]
    format_ = tool_format(family.tool_parser or "")
    assert format_ is not None
    # A mark around strings ends them, whether it is one token or many.
    markers = [marker for marker in marker_ids(family) if marker not in format_.quotes]
    stand_ins = [chr(FIRST_STAND_IN + number) for number in range(len(markers))]
    pieces = st.sampled_from((*LOOKS_LIKE, *stand_ins))
    text = st.lists(pieces, max_size=8).map("".join)
    number = st.integers(-(10**6), 10**6)
    plain = st.none() | st.booleans() | number | st.text("abc", min_size=1, max_size=4)
    nested = st.dictionaries(st.text("xyz", min_size=1, max_size=3), plain, min_size=1, max_size=3)
    arguments: dict[str, dict[str, st.SearchStrategy[Any]]] = {
        "write": {"path": text, "text": text},
        "add": {"a": number, "b": number.map(lambda n: n / 8), "exact": st.booleans()},
        "query": {"filter": nested, "limit": number},
        "now": {},
    }
    call = st.sampled_from(sorted(arguments)).flatmap(
        lambda name: st.tuples(st.just(name), st.fixed_dictionaries({}, optional=arguments[name]))
    )
    content = st.lists(
        st.sampled_from(("I", "say", "`x`", "so.", "```", "1 < 2", "[a]", "世")), max_size=5
    ).map(lambda words: " ".join(("Well,", *words)))
    return st.builds(
        lambda said, calls: _write(family, markers, stand_ins, said, tuple(calls)),
        st.just("") | content,
        st.lists(call, max_size=3),
    )


def _write(
    family: Family,
    markers: Sequence[str],
    stand_ins: Sequence[str],
    content: str,
    calls: tuple[Invocation, ...],
) -> Answer:
    assert family.write is not None
    if "text and a call" in family.leaves_out and calls:
        content = ""
    if not calls:
        content = content or "Well."
    spelled = dict(zip(stand_ins, markers, strict=True))
    output = family.write(content, calls)
    ids = marker_ids(family)
    split = re.split(f"({'|'.join(map(re.escape, ids))})", output) if ids else [output]
    tokens = [
        token
        for part in split
        if part
        for token in (
            [(part, ids[part])]
            if part in ids
            else [(_replace(piece, spelled), 0) for piece in re.findall(r"\w+|\W", part)]
        )
    ]
    return Answer(content, _replace(calls, spelled), tuple(tokens))


def _replace(value: Any, spelled: dict[str, str]) -> Any:
    """Return a value with the markers themselves in place of what stands for them."""
    match value:
        case str():
            return re.sub("[\ua000-\ua48c]", lambda found: spelled[found.group()], value)
        case dict():
            return {key: _replace(member, spelled) for key, member in value.items()}
        case list() | tuple():
            return type(value)(_replace(item, spelled) for item in value)
        case _:
            return value


REQUEST = ParserRequest(
    tools=list(TOOLS), tool_choice="auto", chat_template_kwargs={"enable_thinking": False}
)


# Compiling a format takes longer than to parse an answer.
@functools.cache
def build_parsers(name: str) -> ParserFactory:
    family = FAMILIES[name]
    # Without the reasoning parser, since some models reason although nothing says so.
    names = ParserNames(family.tool_parser)
    return linear_parsers(names, Vocabulary(marker_ids(family)))


def feed(name: str, tokens: Sequence[Token], *, cut: bool = False) -> list[Event]:
    """Return the events of the tokens, fed one by one to the parser of the family `name`."""
    parser = build_parsers(name)(REQUEST, [])
    events = [event for text, token in tokens for event in parser.feed(text, [token])]
    return join(events + parser.finish(cut=cut))


def by_character(tokens: Sequence[Token]) -> list[Token]:
    """Return the tokens with all text cut into characters."""
    return [
        piece
        for text, token in tokens
        for piece in ([(text, token)] if token else [(char, 0) for char in text])
    ]


def together(tokens: Sequence[Token]) -> list[Token]:
    """Return the tokens with all text between two markers as one."""
    joined: list[Token] = []
    for text, token in tokens:
        if joined and not token and not joined[-1][1]:
            joined[-1] = (joined[-1][0] + text, 0)
        else:
            joined.append((text, token))
    return joined
