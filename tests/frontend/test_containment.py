"""What may leave a prompt thread; `test_prompt_queue` raises it there."""

import pytest
from backedge.base.errors import RequestError
from backedge.base.limits import MAX_SHOWN_TEXT
from backedge.frontend.containment import PreparationError, contained
from dynamo.llm.exceptions import HttpError, InvalidArgument


@pytest.mark.parametrize(
    "error",
    [RequestError("n", "must be 1"), InvalidArgument("x"), HttpError(404, "x"), ValueError("x")],
)
def test_errors_of_a_request_stay_as_they_are(error):
    with pytest.raises(type(error)) as caught, contained():
        raise error
    assert caught.value is error


@pytest.mark.parametrize("kind", [StopIteration, SystemExit, KeyError, MemoryError])
def test_others_become_an_error_that_names_them(kind):
    cause = kind("x" * 10_000)
    with pytest.raises(PreparationError, match=kind.__name__) as caught, contained():
        raise cause
    assert caught.value.__cause__ is cause
    assert len(str(caught.value)) < MAX_SHOWN_TEXT + 100
    with pytest.raises(kind), contained(kind):
        raise kind("x")


def test_an_error_without_a_text():
    with (
        pytest.raises(PreparationError, match=r"^the request could not be prepared \(SystemExit\)"),
        contained(),
    ):
        raise SystemExit
