"""Converts errors of requests that are not sent to Dynamo's HTTP errors."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from http import HTTPStatus

from dynamo.llm.exceptions import (
    Cancelled,
    HttpError,
    InvalidArgument,
    Unknown,
    WorkerUnavailable,
)

from ..base.errors import RequestError, SetupError, shorten
from ..base.json_types import JsonObject
from ..base.log import get_logger
from ..tokenization import TokenizerError
from .containment import PreparationError
from .prompt_queue import BusyError, ClientGoneError

logger = get_logger(__name__)

HIDDEN = "Internal server error"
REFUSALS = InvalidArgument, WorkerUnavailable, Unknown
"""The errors that `build_refusal` sends."""
REFUSED_PROMPTS = RequestError, PreparationError, HttpError, ValueError
"""The errors of rendering and tokenizing that are due to the messages."""


@contextlib.contextmanager
def as_http_errors() -> Iterator[None]:
    """Convert the errors of checking, rendering and tokenizing to Dynamo's.

    The request's faults become InvalidArgument (HTTP 400) with the name of the field. Ours
    become WorkerUnavailable (HTTP 503) or Unknown (500), and are logged: a client is not told what
    failed in a 500. A disconnected client's request becomes Cancelled.
    """
    try:
        yield
    except (BusyError, TokenizerError, SetupError) as error:
        logger.warning("a request gets 503: %s", error)
        raise WorkerUnavailable(str(error)) from error
    except PreparationError as error:
        logger.exception("a request gets 500")
        raise Unknown(HIDDEN) from error
    except ClientGoneError as error:
        raise Cancelled(str(error)) from error
    except RequestError as error:
        raise _refuse(str(error)) from None
    except HttpError as error:
        # InvalidArgument is the only HTTP 400 whose text Dynamo shows to the client.
        if error.code == HTTPStatus.BAD_REQUEST:
            raise _refuse(error.message) from None
        raise
    except ValueError as error:
        # vLLM's and pydantic's checks of a request raise this, with a text for the client.
        raise _refuse(str(error)) from None


def _refuse(text: str) -> InvalidArgument:
    """Log and build an HTTP 400. Callers raise it without a cause, so that tracebacks are short."""
    shown = shorten(text)
    logger.warning("a request gets 400: %s", " ".join(shown.split()))
    return InvalidArgument(shown)


def build_refusal(error: InvalidArgument | WorkerUnavailable | Unknown) -> JsonObject:
    """Return an item of a response's stream that means HTTP 400, 503 or 500.

    It has the text of `error`. Dynamo prints the traceback of any error that a stream raises, also
    for a client's fault, and hides the text of a 503. This item is an error in the form in which
    workers send it (`DynamoError` of dynamo-runtime).
    """
    text = str(error)
    public = {"type": "message", "message": text}
    diagnostic = str(error.__cause__ or text)
    described = {"class": type(error).__name__, "diagnostic": diagnostic, "public": public}
    return {"_dynamo_annotated": True, "event": "error", "error": described}
