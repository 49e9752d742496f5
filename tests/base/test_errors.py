"""Error messages: what happened, the value, what to change."""

from __future__ import annotations

import pytest
from backedge.base.errors import (
    BackedgeError,
    ParserFailedError,
    RequestError,
    SetupError,
    UnknownParserError,
    UnusableParserError,
)

ERRORS = [
    (
        RequestError("tools[0].function.name", 7, "a string"),
        "`tools[0].function.name` is 7; allowed: a string.",
    ),
    (
        UnknownParserError("--tool-call-parser", "x", ["b", "a"]),
        "--tool-call-parser 'x' is not known; set it to one of: a, b.",
    ),
    (
        UnusableParserError("--reasoning-parser", "x", "It cannot.", "Leave it out."),
        "--reasoning-parser 'x' cannot be used: It cannot. Leave it out.",
    ),
    (
        ParserFailedError("hermes", "r1", 3, KeyError("k")),
        "parser 'hermes' failed on request r1 at output token 3: KeyError: 'k'",
    ),
    (
        ParserFailedError("hermes", "r1", 3, "killed"),
        "parser 'hermes' failed on request r1 at output token 3: killed",
    ),
]


@pytest.mark.parametrize(("error", "message"), ERRORS)
def test_the_message(error: BackedgeError, message: str) -> None:
    assert str(error) == message


def test_a_long_value_is_shortened() -> None:
    assert len(str(RequestError("stop", "x" * 10_000, "less"))) < 100


def test_a_wrong_parser_is_an_error_of_the_setup() -> None:
    assert issubclass(UnknownParserError, SetupError)
    assert issubclass(UnusableParserError, SetupError)
