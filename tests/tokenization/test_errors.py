"""What the errors of a user's tokenizer say, and where they stand in the tree."""

import pytest
from backedge.base.errors import BackedgeError, RequestError, SetupError
from backedge.tokenization import (
    TokenizerError,
    TokenizerFailedError,
    TokenizerLoadError,
    TokenizerResultError,
)
from backedge.tokenization.errors import REMEDIES, describe_error


def test_the_errors_are_in_the_tree():
    for error in (TokenizerLoadError, TokenizerFailedError, TokenizerResultError):
        assert issubclass(error, TokenizerError)
        assert issubclass(error, BackedgeError)
        assert not issubclass(error, RequestError | SetupError)


@pytest.mark.parametrize("stage", REMEDIES)
def test_an_error_of_loading_says_what_to_change(stage):
    error = TokenizerLoadError("package:Class", "a/model", stage, "ValueError: no.")
    assert str(error) == (
        f"tokenizer package:Class for model a/model could not be {stage}: "
        f"ValueError: no. {REMEDIES[stage]}"
    )


def test_a_long_argument_or_result_is_shortened():
    failed = TokenizerFailedError("package:Class", "decode", [7] * 10_000, KeyError(7))
    wrong = TokenizerResultError("package:Class", "encode", "x" * 10_000, "list[int]")
    assert str(failed) == "package:Class.decode([7, 7, 7, 7, 7, 7, ...]) raised KeyError: 7"
    assert str(wrong).startswith("package:Class.encode returned str 'xxxx")
    assert len(str(wrong)) < 120


def test_an_error_without_a_text_is_its_type():
    assert describe_error(ValueError("no")) == "ValueError: no"
    assert describe_error(StopIteration()) == "StopIteration"
