"""Finds the parts of an answer that redaction keeps or renames: text that parsers look for.

The markers and keys of the model's formats, JSON's literals and escapes are kept; white space and
punctuation are kept anyway. The names that the request declares and the words of its stop strings
are renamed.

Text from the request is searched directly, never compiled into a pattern: a pattern of 16,000
names blocks all threads of the process for seconds per answer.
"""

from __future__ import annotations

import functools
import itertools
import re
import string
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Sequence

from ..base.json_schema import HOLDERS, JSON_TYPES, walk
from ..base.json_types import JsonObject
from ..base.limits import MAX_SPELLED_NAMES
from ..parsers.base import ParserNames
from ..parsers.format import Format
from ..parsers.parser_lookup import reasoning_format, tool_format
from ..postprocess.messages import PostprocessParams

# Keywords with subschemas that a redacted schema keeps, because parsers read them.
KEPT_HOLDERS = {
    word: HOLDERS[word]
    for word in (
        "properties $defs definitions anyOf oneOf allOf prefixItems items "
        "additionalProperties not".split()
    )
}
LITERALS = ("true", "false", "null", "True", "False", "None")
LETTERS = "xqzjkvwybcdfghlmnprst"
DIGITS = "123456789"
# Begins the names that replace others.
NAME = "N"
# Categories of characters outside of ASCII that are kept: punctuation, spaces, signs of sums.
_PLAIN = frozenset("Pc Pd Ps Pe Pi Pf Po Zs Zl Zp Sm Sc".split())
# In JSON and in XML. The digits of the last kind are replaced.
_HEX = "hex"
# A word outside of a marker.
_SINGLE = "single"
_ESCAPES = rf"""\\u(?P<{_HEX}>[0-9a-fA-F]{{4}})|\\["'\\/bfnrt]|&(?:lt|gt|amp|quot|apos);"""
# A whole number in any notation.
_NO_FRACTION = r"(?<=\d)\.0+(?!\d)"
# An array element in XML.
_ITEM = r"(?<=[</])item(?=>)"
_EXPONENT = r"(?<=\d)[eE](?=[-+]?\d)"
# The parts of a format's pattern that are not words: names of groups, escapes, classes.
_SYNTAX = re.compile(r"\(\?P<\w+>|\\.|\[[^\]]*\]")
_RUN = re.compile(r"\w+")
_WORD = re.compile(r"[^\W\d_](?:\w*[^\W_])?")


class KeptText:
    """Finds the parts of a request's prompt and answer to keep, and those to rename.

    parsers: the model's parser names. renamed: the names that the request declares, and the words
        of its stop strings, with what replaces them: themselves if formats look for them.
    stops: the same for whole stop strings.
    letter, digit: replace other words and numbers; they occur in no stop string.
    """

    def __init__(self, params: PostprocessParams, parsers: ParserNames) -> None:
        self._pattern, own = _build_pattern(parsers)
        names = list(dict.fromkeys(declared_names(params.parser.tools)))
        self.names = frozenset(names)
        spelled = (name for name in names if _RUN.fullmatch(name) is None)
        self._spelled = list(itertools.islice(spelled, MAX_SPELLED_NAMES))
        stops = list(filter(None, params.stop))
        runs = dict.fromkeys(itertools.chain.from_iterable(map(_split, stops)))
        parts = declared_names(params.parser.tools, ("$defs", "definitions"))
        # A stop string may end an answer within a word that formats look for.
        kept = {run for run in runs if _has_no_letter(run) or any(run in word for word in own)}
        stays = "".join(kept)
        words = (run for run in runs if is_replaced(run[0]))
        texts = dict.fromkeys((*names, *parts, *words))
        self.renamed = _rename(texts, own | kept, stays)
        self.stops = {
            stop: "".join(self.renamed.get(run, run) for run in _split(stop)) for stop in stops
        }
        self.letter, self.digit = _choose(LETTERS, stays), _choose(DIGITS, stays)

    def mask(self, text: str) -> list[str | None]:
        """Return what replaces each character; None for one that is redacted by its kind."""
        mask: list[str | None] = [None] * len(text)
        for start, end in (*self._find_stops(text), *self._find_names(text)):
            new = self.renamed[text[start:end]]
            # At the last character, so that a stop string is not complete too early.
            mask[start:end] = new if new == text[start:end] else [""] * (end - start - 1) + [new]
        for match in self._pattern.finditer(text):
            start, end = match.span()
            if match.lastgroup == _SINGLE and not _is_whole(text, start, end):
                continue
            mask[start:end] = text[start:end]
            if match.lastgroup == _HEX:
                start, end = match.span(_HEX)
                mask[start:end] = self.digit * (end - start)
        return mask

    def _find_stops(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield the spans of words in stop strings; of overlapping ones the first to end counts.

        Of those that end together it is the first of the list, as in an answer.
        """
        found = (
            (start + len(stop), place, start)
            for place, stop in enumerate(self.stops)
            for start in find_all(text, stop)
        )
        free = 0
        for end, _, start in sorted(found):
            if start < free:
                continue
            free = start
            for run in _split(text[start:end]):
                free += len(run)
                if run in self.renamed:
                    yield free - len(run), free

    def _find_names(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield the spans of declared names that are whole words, longer ones later."""
        for run in _RUN.finditer(text):
            if run.group() in self.names and _is_whole(text, *run.span()):
                yield run.span()
        for name in sorted(self._spelled, key=len):
            for start in find_all(text, name):
                if _is_whole(text, start, start + len(name)):
                    yield start, start + len(name)


def _choose(characters: str, used: str) -> str:
    return next((one for one in characters if one not in used), characters[0])


def _split(text: str) -> Iterator[str]:
    """Yield the words in `text` and what is between them."""
    for _, run in itertools.groupby(text, is_replaced):
        yield "".join(run)


def _has_no_letter(text: str) -> bool:
    return not any(is_replaced(one) and not one.isdecimal() for one in text)


def _rename(texts: Collection[str], own: Collection[str], stops: str) -> dict[str, str]:
    """Return a short name for each text; without letters, or if formats look for it, itself.

    stops: what stays of stop strings, none of which may end an answer in a name.
    """
    width = len(str(len(texts)))
    figures = LETTERS if set(string.digits) & set(stops) else ""
    free = [one for one in figures if one not in stops]
    spelled = dict(zip(map(ord, string.digits), free, strict=False))
    return {
        text: text
        if text in own or _has_no_letter(text)
        else NAME + f"{number:0{width}}".translate(spelled)
        for number, text in enumerate(texts, 1)
    }


def find_all(text: str, part: str) -> Iterator[int]:
    """Yield the positions of `part` in `text`, from left to right without overlaps."""
    start = text.find(part)
    while start >= 0:
        yield start
        start = text.find(part, start + len(part))


@functools.lru_cache(maxsize=4096)
def is_replaced(character: str) -> bool:
    """Whether a character is part of a word: only punctuation and white space are not.

    Words can also be written in symbols (braille, letters in circles or squares, flags), in marks
    and in invisible characters.
    """
    if character.isascii():
        return character.isalnum()
    return unicodedata.category(character) not in _PLAIN


def _is_whole(text: str, start: int, end: int) -> bool:
    return not any(map(is_replaced, text[start - 1 : start] if start else "")) and not any(
        map(is_replaced, text[end : end + 1])
    )


@functools.cache
def _build_pattern(parsers: ParserNames) -> tuple[re.Pattern[str], frozenset[str]]:
    """Return a pattern of what these parsers look for in any request, and all words in it."""
    markers, words, keys = _format_texts(parsers)
    quoted = {*keys, *JSON_TYPES}
    parts = [
        _ESCAPES,
        *_longest_first(markers),
        rf"(?<!\w)(?P<{_SINGLE}>{'|'.join(_longest_first({*words, *LITERALS}))})(?!\w)",
        _EXPONENT,
        _NO_FRACTION,
        _ITEM,
        rf"""(?<=["'])(?:{"|".join(_longest_first(quoted))})(?=["'])""",
    ]
    texts = (*markers, *words, *quoted)
    own = {*quoted, *words, *LITERALS, "item"}.union(*map(_RUN.findall, texts), *map(_split, texts))
    return re.compile("|".join(parts)), frozenset(own)


def declared_names(
    tools: Iterable[JsonObject], keywords: Sequence[str] = ("properties",)
) -> Iterator[str]:
    """Yield the names of functions, and then those in their schemas at any depth.

    keywords: whose keys are names.
    """
    functions = [function for tool in tools if isinstance(function := tool.get("function"), dict)]
    for function in functions:
        if isinstance(name := function.get("name"), str) and name:
            yield name
    for function in functions:
        for path, _ in walk(function.get("parameters"), KEPT_HOLDERS):
            name = path[-1] if len(path) > 1 and path[-2] in keywords else None
            if isinstance(name, str) and name:
                yield name


def _format_texts(parsers: ParserNames) -> tuple[set[str], set[str], set[str]]:
    """Return the markers, the words in patterns, and the keys of these parsers' formats."""
    formats = list(_find_formats(parsers))
    markers = {
        marker
        for format_ in formats
        for by_marker in format_.states.values()
        for marker in by_marker
        if any(map(is_replaced, marker))
    }
    words = set(itertools.chain.from_iterable(map(_pattern_words, formats)))
    keys = {
        key
        for format_ in formats
        for group in (format_.keys.name, format_.keys.arguments, format_.keys.id)
        for key in (*group, *format_.keys.inside)
    }
    return markers, words, keys


def _find_formats(parsers: ParserNames) -> Iterator[Format]:
    """Yield the formats of these parsers, in each of their forms."""
    named = ((tool_format, parsers.tool_call), (reasoning_format, parsers.reasoning))
    for find, name in named:
        if name and (format_ := find(name)) is not None:
            yield from (format_, *format_.forms)


def _pattern_words(format_: Format) -> Iterator[str]:
    patterns = [pattern.pattern for pattern, _ in format_.headers]
    patterns += [pattern.pattern for pattern in (format_.header, format_.function) if pattern]
    texts = [_SYNTAX.sub(" ", pattern) for pattern in patterns]
    for text in (*texts, format_.separator, format_.tag_prefix, format_.prefix):
        yield from _WORD.findall(text)


def _longest_first(texts: Collection[str]) -> list[str]:
    return [re.escape(text) for text in sorted({*texts}, key=lambda text: (-len(text), text))]
