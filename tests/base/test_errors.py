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
    exiting,
)
from backedge.base.limits import MAX_SHOWN_TEXT

ERRORS = [
    (
        RequestError.wrong("tools[0].function.name", 7, "a string"),
        "`tools[0].function.name` must be a string, not 7.",
    ),
    (RequestError("messages", "must not be empty"), "`messages` must not be empty."),
    (
        RequestError.too_many("stop", 2000, "strings", 1024),
        "`stop` has 2,000 strings; at most 1,024 are allowed.",
    ),
    (
        RequestError.unsupported("logit_bias", "the engine has no such field"),
        "`logit_bias` is not supported: the engine has no such field.",
    ),
    (
        RequestError.rejected(ValueError("No system role.")),
        "`messages` is rejected by the model's chat template: No system role.",
    ),
    (
        UnknownParserError("--tool-call-parser", "x", ["b", "a"]),
        "--tool-call-parser 'x' is not known; set it to one of: a, b.",
    ),
    (
        UnknownParserError("--tool-call-parser", "Hermes2", ["hermes", "xlam"]),
        "--tool-call-parser 'Hermes2' is not known; did you mean hermes?",
    ),
    (
        UnknownParserError("--tool-call-parser", "hermes", ["glm45"], not_engines=True),
        (
            "--tool-call-parser 'hermes' is not one of the engine's own parsers, for which "
            "--postprocess-parsers native or the other parser's name asks; set it to one of: glm45."
        ),
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


@pytest.mark.parametrize(
    "error",
    [
        RequestError.wrong("stop", "x" * 10_000, "less"),
        RequestError.wrong("x" * 10_000, ["x" * 10_000] * 99, "x" * 10_000),
        RequestError("x" * 10_000, "x" * 10_000),
        RequestError.rejected(ValueError("x" * 10_000)),
    ],
)
def test_an_error_is_short(error: RequestError) -> None:
    assert len(str(error)) <= MAX_SHOWN_TEXT


def test_a_long_expectation_leaves_the_value_whole() -> None:
    assert str(RequestError.wrong("n", "value", "x" * 10_000)).endswith("x, not 'value'.")


def test_a_wrong_parser_is_an_error_of_the_setup() -> None:
    assert issubclass(UnknownParserError, SetupError)
    assert issubclass(UnusableParserError, SetupError)


@pytest.mark.parametrize("prefix", ["", "Backedge: "])
def test_a_process_ends_with_the_message_alone(prefix: str) -> None:
    with pytest.raises(SystemExit) as caught, exiting(prefix):
        raise SetupError("no.")
    assert str(caught.value) == f"{prefix}no."
    with pytest.raises(KeyError), exiting(prefix):
        raise KeyError
