"""Random answers of every family: what the model means, and the tokens it writes for that.

Values are drawn from declared schemas, which are drawn as well, and written by the family's writer,
so the meaning is known. A string may spell a marker of the family: in the tokens that is text,
since a tokenizer writes what a user has typed without its special tokens.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from backedge.base.json_types import JsonObject
from backedge.parsers.base import ParserFactory, ParserNames, ParserRequest
from backedge.parsers.events import Event
from backedge.parsers.format import State
from backedge.parsers.linear_parsers import Vocabulary
from backedge.parsers.parser_lookup import linear_parsers, tool_format
from hypothesis import strategies as st

from tests.parsers.drawn_schemas import Drawn, drawn_schemas
from tests.parsers.driver import run
from tests.parsers.families import FAMILIES
from tests.parsers.families.family import TOOLS, Family, Invocation

Token = tuple[str, int]
"""A token's text, and its id; 0 for all text."""

# Stands for a word that no other place of the answer has.
WORD = "\ue000"
# A shorter marker is a sign that strings may have.
SHORTEST = 3
# Stand for the family's markers while an answer is written.
FIRST_STAND_IN = 0xA000
LOOKS_LIKE = (
    *("{", "}", "[1, 2]", '{"a": 1}', "null", "true", "42", "1e5", "None", "f(x=1)"),
    *("```", "\n```\n", "`x`", "<", ">", "</", "/>", "&amp;", "<b>", "=", ":", ",", ";"),
    *('"', "'", "\\", "\\n", "\n", "\t", " ", "  ", "def f():\n    return 1", "# no"),
    *("é", "世", "👋🏽", "Ω", "\u00a0", WORD, f"two {WORD}", "http://x/y?a=b&c=d"),
)
SAID = ("I", WORD, "`x`", "so.", "```", "1 < 2", "[a]", "世")
# The function whose schemas are drawn.
DRAWN = "drawn"


@dataclass(frozen=True)
class Answer:
    """An answer. calls: with decoded arguments. tokens: as the model writes it.

    reasoning: None if the format is used without its reasoning.
    ids: the tokens of the markers; none if the tokenizer spells them in pieces.
    """

    family: str
    reasoning: str | None
    content: str
    calls: tuple[Invocation, ...]
    tokens: tuple[Token, ...]
    tools: tuple[dict[str, Any], ...]
    ids: tuple[tuple[str, int], ...]

    def written(self, calls: Sequence[Invocation]) -> str:
        """Return how the family writes `calls`."""
        write = FAMILIES[self.family].write
        assert write is not None
        return write("", calls)


@st.composite
def answers(draw: st.DrawFn, name: str) -> Answer:
    """Return random answers of a family that has tool calls."""
    family = FAMILIES[name]
    assert family.write is not None
    ids = family.ids if draw(st.booleans()) else {}
    schemas = draw(st.lists(drawn_schemas().filter(_can_write(family)), max_size=2))
    pieces = st.sampled_from((*LOOKS_LIKE, *(_stand_in(id_) for id_ in spelled(family, ids))))
    text = st.lists(pieces, max_size=8).map("".join)
    said = st.lists(st.sampled_from(SAID), max_size=5).map(
        lambda words: " ".join(("Well,", *words))
    )
    content = draw(st.just("") | said)
    calls = tuple(draw(st.lists(_calls(text, schemas), max_size=3)))
    thinks = family.tags is not None and draw(st.booleans())
    if "text and a call" in family.leaves_out and calls:
        content = ""
    if not calls:
        content = content or "Well."
    numbers = itertools.count()
    reasoning = _number(f"So, {draw(text)}.", numbers) if thinks else None
    content, calls = _number(content, numbers), _number(calls, numbers)
    output = family.write(content, calls)
    if reasoning is not None:
        output = family.write_thought(reasoning) + output
    texts = {_stand_in(id_): marker for marker, id_ in ids.items()}
    return Answer(
        name,
        _replace(reasoning, texts),
        content,
        _replace(calls, texts),
        tuple(tokenize(output, ids, texts)),
        (*TOOLS, *(_declare(number, drawn) for number, drawn in enumerate(schemas))),
        tuple(ids.items()),
    )


def spelled(family: Family, ids: dict[str, int]) -> list[int]:
    """Return the tokens whose text a string may spell.

    A mark around strings ends them, whether it is one token or many, and so does a marker without a
    token, alone or within another one.
    """
    format_ = tool_format(family.tool_parser or "")
    assert format_ is not None
    known = {*itertools.chain.from_iterable(format_.states.values())}
    ends = {*format_.quotes, *(one for one in known.difference(ids) if len(one) >= SHORTEST)}
    return [id_ for marker, id_ in ids.items() if not any(end in marker for end in ends)]


def _can_write(family: Family) -> Callable[[Drawn], bool]:
    """Return whether the family's syntax can express what a schema tells apart.

    Nested elements have no types of their own, so an `enum` of lists cannot say which of its
    values they are before all of them are read.
    """
    format_ = tool_format(family.tool_parser or "")
    if format_ is None or State.ELEMENTS not in format_.states:
        return lambda _: True
    return lambda drawn: not _has_containers_in_literals(drawn.parameters)


def _has_containers_in_literals(schema: Any) -> bool:
    if isinstance(schema, list):
        return any(map(_has_containers_in_literals, schema))
    if not isinstance(schema, dict):
        return False
    literals = [*schema.get("enum", ()), schema.get("const")]
    return any(isinstance(literal, dict | list) for literal in literals) or any(
        map(_has_containers_in_literals, schema.values())
    )


def _calls(text: st.SearchStrategy[str], schemas: Sequence[Drawn]) -> st.SearchStrategy[Invocation]:
    """Return calls; text: of the values that are strings. schemas: of the drawn functions."""
    number = st.integers(-(10**6), 10**6) | st.just(10**280)
    plain = st.none() | st.booleans() | number | st.text("abc", min_size=1, max_size=4)
    nested = st.dictionaries(st.text("xyz", min_size=1, max_size=3), plain, min_size=1, max_size=3)
    arguments: dict[str, dict[str, st.SearchStrategy[Any]]] = {
        "write": {"path": text, "text": text},
        "add": {"a": number, "b": number.map(lambda n: n / 8), "exact": st.booleans()},
        "query": {"filter": nested, "limit": number},
        "now": {},
        **{f"{DRAWN}{n}": {"x": st.just(drawn.value)} for n, drawn in enumerate(schemas)},
    }
    return st.sampled_from(sorted(arguments)).flatmap(
        lambda name: st.tuples(st.just(name), st.fixed_dictionaries({}, optional=arguments[name]))
    )


def _declare(number: int, drawn: Drawn) -> dict[str, Any]:
    function = {"name": f"{DRAWN}{number}", "parameters": drawn.parameters}
    return {"type": "function", "function": function}


def _stand_in(token_id: int) -> str:
    return chr(FIRST_STAND_IN + token_id)


def tokenize(output: str, ids: dict[str, int], texts: dict[str, str]) -> list[Token]:
    """Return the output's tokens: markers, words, and single characters."""
    split = re.split(f"({'|'.join(map(re.escape, ids))})", output) if ids else [output]
    return [
        token
        for part in split
        if part
        for token in (
            [(part, ids[part])]
            if part in ids
            else [(_replace(piece, texts), 0) for piece in re.findall(r"\w+|\W", part)]
        )
    ]


def _number(value: Any, numbers: itertools.count[int]) -> Any:
    """Return a value in which each word has a number of its own."""
    return _map_strings(value, lambda text: re.sub(WORD, lambda _: f"q{next(numbers)}q", text))


def _replace(value: Any, texts: dict[str, str]) -> Any:
    """Return a value with the markers themselves in place of what stands for them."""
    return _map_strings(
        value, lambda text: re.sub("[\ua000-\ua0ff]", lambda found: texts[found.group()], text)
    )


def _map_strings(value: Any, change: Callable[[str], str]) -> Any:
    match value:
        case str():
            return change(value)
        case dict():
            return {key: _map_strings(member, change) for key, member in value.items()}
        case list() | tuple():
            return type(value)(_map_strings(item, change) for item in value)
        case _:
            return value


# Compiling a format takes longer than to parse an answer.
@functools.cache
def build_parsers(name: str, ids: tuple[tuple[str, int], ...], thinks: bool) -> ParserFactory:
    family = FAMILIES[name]
    # Some models reason although nothing says so, if their format is used with its reasoning.
    names = ParserNames(family.tool_parser, family.reasoning_parser if thinks else None)
    return linear_parsers(names, Vocabulary(dict(ids)))


def feed(answer: Answer, tokens: Sequence[Token], *, cut: bool = False) -> list[Event]:
    """Return the events of the tokens, fed one by one to the parser for `answer`."""
    thinks = answer.reasoning is not None
    kwargs: JsonObject = {} if thinks else {"enable_thinking": False}
    request = ParserRequest(
        tools=list(answer.tools), tool_choice="auto", chat_template_kwargs=kwargs
    )
    parser = build_parsers(answer.family, answer.ids, thinks)(request, [])
    return run(parser, tokens, cut=cut)


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
