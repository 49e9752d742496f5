"""Errors of a request that is not sent, as Dynamo's HTTP errors."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from http import HTTPStatus

from dynamo.llm.exceptions import HttpError, InvalidArgument, WorkerUnavailable

from ..parsers.errors import RequestError
from ..tokenization import TokenizerError
from .runtime.prompt_queue import BusyError

logger = logging.getLogger(__name__)


@contextlib.contextmanager
def as_http_errors() -> Iterator[None]:
    """Raise the errors of checking, rendering and tokenizing as Dynamo's.

    The request's faults become InvalidArgument (HTTP 400) with the name of the field. Ours
    become WorkerUnavailable (HTTP 503); Dynamo does not show its text to the client, so the text
    is logged.
    """
    try:
        yield
    except (BusyError, TokenizerError) as error:
        logger.warning("a request gets 503: %s", error)
        raise WorkerUnavailable(str(error)) from error
    except RequestError as error:
        raise InvalidArgument(str(error)) from error
    except HttpError as error:
        # Of all 400s, Dynamo shows the client only the text of InvalidArgument.
        if error.code == HTTPStatus.BAD_REQUEST:
            raise InvalidArgument(error.message) from error
        raise
    except ValueError as error:
        # vLLM's and pydantic's checks of a request raise it, with a text for the client.
        raise InvalidArgument(str(error)) from error
