"""What may leave a prompt thread; `test_prompt_queue` raises it there."""

import pytest
from backedge.base.errors import RequestError
from backedge.base.limits import MAX_SHOWN_TEXT
from backedge.frontend.prompt_queue import PreparationError, contain
from dynamo.llm.exceptions import HttpError, InvalidArgument


@pytest.mark.parametrize(
    "error",
    [RequestError("n", "must be 1"), InvalidArgument("x"), HttpError(404, "x"), ValueError("x")],
)
def test_errors_of_a_request_stay_as_they_are(error):
    assert contain(error) is error


@pytest.mark.parametrize("kind", [StopIteration, SystemExit, KeyError, MemoryError])
def test_others_become_an_error_that_names_them(kind):
    cause = kind("x" * 10_000)
    contained = contain(cause)
    assert isinstance(contained, PreparationError)
    assert contained.__cause__ is cause
    assert kind.__name__ in str(contained)
    assert len(str(contained)) < MAX_SHOWN_TEXT + 100


def test_an_error_without_a_text():
    assert str(contain(SystemExit())) == "the request could not be prepared (SystemExit)."
