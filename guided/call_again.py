"""The grammar of a malformed call that is generated again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ..base.json_types import JsonObject
from ..base.limits import MAX_CALL_ATTEMPTS, MAX_DISCARDED_TOKENS, MAX_REQUEST_ATTEMPTS
from ..parsers.argument_grammar import exactly, fill, in_turn
from ..parsers.base import ParserRequest
from ..parsers.format import Format
from ..parsers.json_rest import build_rest
from ..parsers.schema import read_parameters
from ..parsers.structural_tag import ANY_TEXT, build_tag, find_calls
from .call_policy import ANY_OBJECT, as_guided_decoding
from .client_schemas import standardize

# A format's calls begin within that many tokens after the text in front of them.
MAX_LEAD_TOKENS = 64

ReadTokens = Callable[[Sequence[int]], str]
"""Returns the text of tokens, special ones included."""


@dataclass
class AttemptBudget:
    """The attempts at the malformed calls of one request, and their bounds.

    attempts: in all. discarded: tokens in all.
    """

    attempts: int = 0
    discarded: int = 0
    _attempts_at: Counter[tuple[int, int]] = field(default_factory=Counter)

    def allows(self, place: tuple[int, int], discarded: int) -> bool:
        """Whether another attempt may discard so many tokens. place: choice, and tokens kept."""
        return (
            self.attempts < MAX_REQUEST_ATTEMPTS
            and self._attempts_at[place] < MAX_CALL_ATTEMPTS
            and self.discarded + discarded <= MAX_DISCARDED_TOKENS
        )

    def spend(self, place: tuple[int, int], discarded: int) -> None:
        """Count an attempt."""
        self.attempts += 1
        self._attempts_at[place] += 1
        self.discarded += discarded

    def give_up(self, taken_back: int) -> None:
        """Allow no other attempt: the last one did not discard its `taken_back` tokens."""
        self.attempts = MAX_REQUEST_ATTEMPTS
        self.discarded -= taken_back


def count_kept(format_: Format, discarded: Sequence[int], read: ReadTokens) -> tuple[int, str]:
    """Return how many tokens of a malformed call stay, and the text after these before the call.

    The end of a thought and a message's header come before a call and are not part of its
    grammar. The text is not empty if the call begins within a token.
    discarded: the tokens from the end of the text on. read: returns their text.
    """
    text = read(discarded[:MAX_LEAD_TOKENS])
    at = find_calls(format_, text)
    for count in range(MAX_LEAD_TOKENS if at else 0):
        if (start := read(discarded[:count])) == text[:at]:
            return count, ""
        if len(start) > at:
            break
    return 0, text[:at]


def build_rest_grammar(
    format_: Format, request: ParserRequest, name: str, arguments: str
) -> JsonObject | None:
    """Return Dynamo's `guided_decoding` for the rest of a call, and any output after it.

    arguments: those that are written. None: no right call begins so, or its arguments are not JSON.
    """
    spelling = format_.spelling
    schema = read_parameters(request.tools).get(name)
    if spelling is None or spelling.parameters or schema is None:
        return None
    rest = build_rest(arguments, standardize(schema or ANY_OBJECT))
    if rest is None:
        return None
    names = {"name": exactly(name)}
    _, after = spelling.call.split("{arguments}")
    end = in_turn([*fill(after, names), *fill(spelling.around[1])])
    single = not request.parallel_tool_calls
    return as_guided_decoding(in_turn([rest, end] if single else [rest, end, ANY_TEXT]))


def build_call_grammar(format_: Format, request: ParserRequest, lead: str) -> JsonObject | None:
    """Return Dynamo's `guided_decoding` for one or more calls, and any output after them.

    lead: the text before the first call. None: the grammar cannot express the tools' names.
    """
    single = not request.parallel_tool_calls
    parameters = read_parameters(request.tools)
    tools = [(name, standardize(schema or ANY_OBJECT)) for name, schema in parameters.items()]
    tag = build_tag(format_, tools, forced=True, single=single)
    if tag is None:
        return None
    before = [exactly(lead)] if lead else []
    after = [] if single else [ANY_TEXT]
    return as_guided_decoding(in_turn([*before, tag["format"], *after]))
