"""The client reads why a worker refuses its request."""

from __future__ import annotations

import asyncio
import traceback
from http import HTTPStatus

import pytest
from backedge.base.errors import PoolAbsentError, RequestError
from backedge.worker.request_check import refuse, show_refusal
from dynamo.llm.exceptions import EngineShutdown, HttpError, InvalidArgument


def test_a_refusal_is_raised_with_the_first_output() -> None:
    stream = refuse(RequestError("n", "must be at least 1"))
    with pytest.raises(InvalidArgument, match="`n` must be at least 1"):
        asyncio.run(anext(stream))


def test_a_handlers_400_is_shown() -> None:
    shown = show_refusal(HttpError(HTTPStatus.BAD_REQUEST, "the regex is open"))
    assert isinstance(shown, InvalidArgument)
    assert "the regex is open" in str(shown)


def test_a_refusal_does_not_show_where_in_an_engine_it_was_raised() -> None:
    def refuse_in_an_engine() -> None:
        try:
            int("inner")
        except ValueError as error:
            raise InvalidArgument("outer") from error

    with pytest.raises(InvalidArgument) as caught:
        refuse_in_an_engine()
    shown = "".join(traceback.format_exception(show_refusal(caught.value)))
    assert [line for line in shown.splitlines() if line] == [shown.strip()]
    assert shown.strip().endswith("InvalidArgument: outer")


def test_a_pool_without_processes_has_the_request_moved() -> None:
    assert isinstance(show_refusal(PoolAbsentError("none")), EngineShutdown)


OTHERS = [HttpError(503, "busy"), HttpError(404, "no"), ValueError("x"), InvalidArgument("y")]


@pytest.mark.parametrize("error", OTHERS, ids=repr)
def test_other_errors_stay_what_they_are(error: Exception) -> None:
    assert show_refusal(error) is error
