"""What the adapters to both engines share: the checks at a worker's start, and the calls of one choice."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ..base import StreamParser
from ..errors import BackedgeError, UnknownParserError, UnusableParserError
from ..events import Event, ToolCallArguments, ToolCallStarted

# Enough for a parser to reach its first branch; no parser has a marker in it.
PROBE_TEXT = "a b"
PROBE_TOOL = {
    "type": "function",
    "function": {"name": "probe", "parameters": {"type": "object", "properties": {}}},
}
LEAVE_OUT = "Choose another parser, or leave the flag out."


def check_name(
    flag: str, name: str | None, registered: Iterable[str], also_known: Iterable[str]
) -> None:
    """Raise `UnknownParserError` for a name that is not `registered`. also_known: further names for the message."""
    if name and name not in (known := set(registered)):
        raise UnknownParserError(flag, name, known.union(also_known))


@contextlib.contextmanager
def as_unusable(
    engine: str, flag: str, name: str, unusable: Mapping[str, str] | None = None
) -> Iterator[None]:
    """Turn whatever a parser of `engine` raises while it is tried into `UnusableParserError`.

    unusable: parsers that need not be tried, and why.
    """
    if unusable and name in unusable:
        raise UnusableParserError(flag, name, unusable[name], LEAVE_OUT)
    try:
        yield
    except BackedgeError:
        raise
    except NotImplementedError as error:
        reason = f"{engine}'s parser of that name only finds where reasoning ends; it cannot split a stream."
        raise UnusableParserError(flag, name, reason, LEAVE_OUT) from error
    except Exception as error:
        # Parsers are third-party code and raise whatever they like when the
        # tokenizer lacks their markers; all of it means the same to the user.
        raise misfit(
            flag,
            name,
            f"it does not work with this model's tokenizer ({type(error).__name__}: {error}).",
        ) from error


def misfit(flag: str, name: str, reason: str) -> UnusableParserError:
    """Return the error for a parser that another model's family needs."""
    return UnusableParserError(
        flag, name, reason, "Choose the parser of this model's family, or leave the flag out."
    )


def probe(parser: StreamParser, tokenizer: Any) -> None:
    """Feed `parser` a few tokens, as every request will."""
    *body, last = tokenizer.encode(PROBE_TEXT, add_special_tokens=False)
    for token_id in body:
        parser.feed(tokenizer.decode([token_id]), [token_id])
    parser.finish(tokenizer.decode([last]), [last])


class SentCalls:
    """The calls of one choice, as far as they were given out."""

    def __init__(self) -> None:
        self._arguments: dict[int, list[str]] = {}

    def __len__(self) -> int:
        return len(self._arguments)

    def __contains__(self, index: int) -> bool:
        return index in self._arguments

    def start(self, index: int, name: str, call_id: str | None) -> Event:
        """Return the event that begins call `index`."""
        self._arguments[index] = []
        return ToolCallStarted(index, name, call_id)

    def argue(self, index: int, text: str) -> Event:
        """Return the event for more arguments of a call that was started."""
        self._arguments[index].append(text)
        return ToolCallArguments(index, text)

    def unsent(self, parsed: Sequence[Any]) -> Iterator[Event]:
        """Yield what a tool parser has parsed and never sent.

        Some parsers (and the engines' own servers behind them) lose the end of a
        call that is completed by the last token of the stream.

        parsed: what the parsers of both engines keep as `prev_tool_call_arr`, by index of the call.
        """
        for index, call in enumerate(parsed):
            if index not in self or not isinstance(call, dict) or "arguments" not in call:
                continue
            arguments = call["arguments"]
            expected = (
                arguments
                if isinstance(arguments, str)
                else json.dumps(arguments, ensure_ascii=False)
            )
            sent = "".join(self._arguments[index])
            if expected != sent and expected.startswith(sent):
                yield self.argue(index, expected[len(sent) :])
