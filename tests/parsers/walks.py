"""Random walks over a grammar's masks, and what was written on the way, read from its spelling."""

from __future__ import annotations

import ast
import itertools
import json
import random
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from backedge.base.json_types import JsonObject
from backedge.parsers.base import ParserNames, ParserRequest
from backedge.parsers.events import Event
from backedge.parsers.format import Format, Literals, Spelling
from backedge.parsers.linear_parsers import Vocabulary
from backedge.parsers.parser_lookup import linear_parsers

from tests.parsers.driver import run

xgrammar = pytest.importorskip("xgrammar")
testing = pytest.importorskip("xgrammar.testing")

STOP = "</s>"
CHARACTERS = [*map(chr, range(32, 127)), "\n", "é", "世", "ab", "x y", "True", "null", "12"]
# What ends values, in the order in which a walk that has been long enough prefers it.
CLOSERS = ('"', "}", "]", "'", ")", "0", "1", "a", "e")
# Tokens after which a walk closes what it has opened, and after which it is given up.
LONG, TOO_LONG = 60, 2000
INSIDE = {"name": r"[\w.:/-]+", "key": r"[\w.:/$@ -]+", "type": r"\w+", "index": r"\d+"}
QUOTED = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\""
HOLE = re.compile(r"(\{(?:name|arguments|index|key|type|value)\}|\n[ \t]*)")


def texts_in(tag: Any) -> Iterator[str]:
    """Yield the fixed texts of a structural tag."""
    if isinstance(tag, dict):
        for word, value in tag.items():
            if word in ("begin", "end", "value", "triggers", "excludes"):
                yield from [value] if isinstance(value, str) else value
            elif word != "json_schema":
                yield from texts_in(value)
    elif isinstance(tag, list):
        for part in tag:
            yield from texts_in(part)


def accepts(grammar: Any, text: str) -> bool:
    """Return whether a grammar of xgrammar accepts a text."""
    accepted: bool = testing._is_grammar_accept_string(grammar, text)
    return accepted


class Walker:
    """Walks over the masks of a structural tag."""

    def __init__(self, tag: JsonObject) -> None:
        fixed = dict.fromkeys(filter(None, texts_in(tag["format"])))
        self._tokens = [STOP, *dict.fromkeys([*CHARACTERS, *"".join(fixed), *fixed])]
        self._fixed = {self._tokens.index(text) for text in fixed}
        self._closers = [self._tokens.index(text) for text in CLOSERS]
        last = [text for text in fixed if "/" in text or "end" in text or "close" in text]
        # What encloses the rest comes last, and ends the walk soonest.
        self._ends = [self._tokens.index(text) for text in (*reversed(last), *fixed)]
        info = xgrammar.TokenizerInfo(self._tokens, stop_token_ids=[0])
        compiler = xgrammar.GrammarCompiler(info, cache_enabled=False)
        self._compiled = compiler.compile_structural_tag(json.dumps(tag))
        self._mask = xgrammar.allocate_token_bitmask(1, len(self._tokens))

    def walk(self, seed: str) -> str:
        """Return an answer that the grammar accepts."""
        drawn = random.Random(seed)
        matcher = xgrammar.GrammarMatcher(self._compiled)
        written: list[str] = []
        for step in itertools.count():
            assert step < TOO_LONG, "".join(written)
            matcher.fill_next_token_bitmask(self._mask)
            bits = np.unpackbits(self._mask.numpy().view(np.uint8), bitorder="little")
            allowed = bits[: len(self._tokens)].nonzero()[0].tolist()
            assert allowed, "".join(written)
            token = self._choose(drawn, allowed, step)
            assert matcher.accept_token(token)
            if token == 0:
                return "".join(written)
            written.append(self._tokens[token])
        raise AssertionError

    def _choose(self, drawn: random.Random, allowed: list[int], step: int) -> int:
        if allowed[0] == 0 and (step > LONG or drawn.random() < 0.2):
            return 0
        if step > LONG and drawn.random() < 0.9:
            preferred = self._closers if drawn.random() < 0.5 else self._ends
            closers = [token for token in preferred if token in allowed]
            if closers:
                return closers[min(int(drawn.expovariate(1)), len(closers) - 1)]
        fixed = [token for token in allowed if token in self._fixed]
        if fixed and drawn.random() < 0.5:
            return drawn.choice(fixed)
        return drawn.choice(allowed)


def to_pattern(written: str) -> re.Pattern[str]:
    """Return an expression for a text of a spelling: each placeholder is a group."""
    pieces: list[str] = []
    for piece in HOLE.split(written):
        if piece.startswith("\n"):
            pieces.append(f"(?:{re.escape(piece)})?")
        elif HOLE.fullmatch(piece) is None:
            pieces.append(re.escape(piece))
        else:
            group = f"(?P<{piece[1:-1]}>{INSIDE.get(piece[1:-1], '.*?')})"
            pieces.append(f"(?P={piece[1:-1]})" if group in pieces else group)
    return re.compile("".join(pieces), re.DOTALL)


class Reader:
    """Reads the calls of an answer that has nothing else, by the spelling alone."""

    def __init__(self, spelling: Spelling) -> None:
        before, after = spelling.call.split("{arguments}")
        self._before, self._after = to_pattern(before), to_pattern(after)
        self._parameters = [to_pattern(text) for text in spelling.parameters.values()]
        self._literals = spelling.literals

    def read(self, text: str) -> list[tuple[str, Any]]:
        """Return each call's name and arguments; of parameters the texts of their values."""
        calls, end = [], 0
        while (begin := self._before.search(text, end)) is not None:
            arguments, end = self._read_arguments(text, begin.end())
            after = self._after.match(text, end)
            assert after is not None, text[end:]
            calls.append((begin["name"], arguments))
            end = after.end()
        return calls

    @staticmethod
    def _skip(text: str, end: int) -> int:
        return len(text) - len(text[end:].lstrip())

    def _read_arguments(self, text: str, end: int) -> tuple[Any, int]:
        if self._literals is not None:
            return LiteralReader(text, end, self._literals).read_arguments()
        if not self._parameters:
            found, end = json.JSONDecoder().raw_decode(text, self._skip(text, end))
            return found, self._skip(text, end)
        arguments: dict[str, list[str]] = {}
        while True:
            matches = [m for p in self._parameters if (m := p.match(text, end)) is not None]
            if not matches:
                return arguments, end
            found = min(matches, key=lambda m: (len(m["value"]),))
            arguments.setdefault(found["key"], []).append(found["value"])
            end = found.end()


class LiteralReader:
    """Reads the arguments of a call as `Literals` says, from a position on."""

    def __init__(self, text: str, end: int, literals: Literals) -> None:
        self._text, self._end = text, end
        self._between, self._mark = literals.between, literals.mark

    def read_arguments(self) -> tuple[dict[str, Any], int]:
        """Return the arguments and where they end."""
        arguments = self._read_members(r"'?([\w.$@/ -]+?)'?[=:] ?")
        return arguments, self._end

    def _take(self, pattern: str) -> re.Match[str] | None:
        found = re.compile(pattern, re.DOTALL).match(self._text, self._end)
        self._end = self._end if found is None else found.end()
        return found

    def _read_members(self, key: str) -> dict[str, Any]:
        members = {}
        while (found := self._take(key)) is not None:
            name = found[1]
            assert name not in members
            members[ast.literal_eval(name) if name[0] in "\"'" else name] = self._read_value()
            if self._take(re.escape(self._between)) is None:
                break
        return members

    def _read_value(self) -> Any:
        if self._take(r"\["):
            items = []
            while not self._take(r"\]"):
                items.append(self._read_value())
                self._take(re.escape(self._between))
            return items
        if self._take(r"\{"):
            members = self._read_members(f"({QUOTED}): " if not self._mark else r"(\w+):")
            assert self._take(r"\}")
            return members
        mark = re.escape(self._mark)
        if self._mark and (found := self._take(f"{mark}(.*?){mark}")) is not None:
            return found[1]
        found = self._take(rf"{QUOTED}|[\w.+-]+")
        assert found is not None, self._text[self._end :]
        word = found[0]
        return ast.literal_eval(word) if word[0] in "\"'TFN" else json.loads(word)


def parse(format_: Format, tools: Any, text: str, *, reasons: bool = False) -> list[Event]:
    """Return the events of an answer. reasons: the format parses its reasoning, too."""
    names = ParserNames(format_.name, format_.name if reasons else None)
    parsers = linear_parsers(names, Vocabulary())
    parser = parsers(ParserRequest(tools=tools, tool_choice="auto"), [])
    return run(parser, text)
