"""Errors of checking, rendering and tokenizing, as the client gets them."""

import pytest
from backedge.base.errors import RequestError, SetupError
from backedge.frontend.http_errors import as_http_errors
from backedge.frontend.prompt_queue import BusyError, ClientGoneError
from backedge.tokenization import TokenizerLoadError
from dynamo.llm.exceptions import Cancelled, HttpError, InvalidArgument, WorkerUnavailable


def test_what_nobody_waits_for_is_cancelled():
    with pytest.raises(Cancelled), as_http_errors():
        raise ClientGoneError


@pytest.mark.parametrize(
    "error",
    [
        BusyError(3, 2.0),
        TokenizerLoadError("m:C", "/model", "imported", "no module"),
        SetupError("no template"),
    ],
)
def test_what_is_our_fault_is_503_and_logged(error, caplog):
    with pytest.raises(WorkerUnavailable), as_http_errors():
        raise error
    assert str(error) in caplog.text


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (RequestError("n", "must be 1"), "`n` must be 1"),
        (HttpError(400, "Validation: n"), "Validation: n"),
        (ValueError("vLLM's check\nof two lines"), "vLLM's check"),
    ],
)
def test_what_is_the_requests_fault_is_400_with_the_text_in_one_line(error, text, caplog):
    with pytest.raises(InvalidArgument, match=text), as_http_errors():
        raise error
    [line] = caplog.messages
    assert line.startswith(f"a request gets 400: {text}")
    assert "\n" not in line


def test_other_http_errors_keep_their_code():
    with pytest.raises(HttpError) as caught, as_http_errors():
        raise HttpError(404, "no such image")
    assert (caught.value.code, caught.value.message) == (404, "no such image")


def test_faults_of_the_code_stay_what_they_are():
    with pytest.raises(KeyError), as_http_errors():
        raise KeyError("x")
