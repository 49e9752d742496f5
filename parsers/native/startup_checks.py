"""Checks an engine's parsers at the worker's start, so that requests find no broken one."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol, cast

from ...base.errors import (
    REASONING_FLAG,
    TOOL_CALL_FLAG,
    BackedgeError,
    UnknownParserError,
    UnusableParserError,
)
from ..base import ParserFactory, ParserNames, ParserRequest, StreamParser

# Long enough for a parser to reach its first branch; contains no parser's marker.
PROBE_TEXT = "a b"
PROBE_TOOL = {
    "type": "function",
    "function": {"name": "probe", "parameters": {"type": "object", "properties": {}}},
}
LEAVE_OUT = "Choose another parser, or leave the flag out."


class EngineTokenizer(Protocol):
    """A model's tokenizer as loaded by its engine."""

    def encode(self, text: str, /, *, add_special_tokens: bool) -> list[int]:
        """Return the token ids of `text`."""

    def decode(self, token_ids: Sequence[int], /) -> str:
        """Return the text of `token_ids`, special tokens included."""


def check_registered(
    known_names: Callable[[str], Iterable[str]], names: ParserNames, also_known: Iterable[str] = ()
) -> None:
    """Raise `UnknownParserError` for a name that an engine does not register.

    known_names: returns the engine's names for a flag. also_known: those of other parsers, which
        the message suggests unless `name` is one.
    """
    for flag, name in ((TOOL_CALL_FLAG, names.tool_call), (REASONING_FLAG, names.reasoning)):
        if name and name not in (known := set(known_names(flag))):
            if name in (others := set(also_known)):
                raise UnknownParserError(flag, name, known, not_engines=True)
            raise UnknownParserError(flag, name, known | others)


@contextlib.contextmanager
def raise_unusable(
    engine: str, flag: str, name: str, known_unusable: Mapping[str, str] | None = None
) -> Iterator[None]:
    """Convert any exception of an engine's parser to `UnusableParserError`.

    engine: its name, for the message.
    known_unusable: reasons against parsers that need not be tried, by name.
    """
    if known_unusable and name in known_unusable:
        raise UnusableParserError(flag, name, known_unusable[name], LEAVE_OUT)
    try:
        yield
    except BackedgeError:
        raise
    except NotImplementedError as error:
        reason = (
            f"{engine}'s parser of that name only finds where reasoning ends; "
            "it cannot split a stream."
        )
        raise UnusableParserError(flag, name, reason, LEAVE_OUT) from error
    except Exception as error:
        # The parsers are third-party code, which may raise anything if the tokenizer lacks their
        # markers; for the user it all means the same.
        reason = f"it does not work with this model's tokenizer ({type(error).__name__}: {error})."
        raise build_wrong_family_error(flag, name, reason) from error


def try_parsers(engine: str, build: ParserFactory, names: ParserNames, tokenizer: object) -> None:
    """Try the parsers of these names. Raises `UnusableParserError` as `raise_unusable`.

    build: called for a request without tools, then for one with a tool.
    tokenizer: an `EngineTokenizer`.
    """
    with_tools = ParserRequest(tools=[PROBE_TOOL], tool_choice="auto")
    for flag, name, request in (
        (REASONING_FLAG, names.reasoning, ParserRequest()),
        (TOOL_CALL_FLAG, names.tool_call, with_tools),
    ):
        if name:
            with raise_unusable(engine, flag, name):
                try_parser(build(request, []), cast("EngineTokenizer", tokenizer))


def build_wrong_family_error(flag: str, name: str, reason: str) -> UnusableParserError:
    """Return the error for a parser that belongs to another family of models."""
    return UnusableParserError(
        flag, name, reason, "Choose the parser of this model's family, or leave the flag out."
    )


def try_parser(parser: StreamParser, tokenizer: EngineTokenizer) -> None:
    """Feed `parser` a few tokens, as every request does. Raises what the parser raises."""
    *body, last = tokenizer.encode(PROBE_TEXT, add_special_tokens=False)
    for token_id in body:
        parser.feed(tokenizer.decode([token_id]), [token_id])
    parser.finish(tokenizer.decode([last]), [last])
