"""What keeps a request from being sent, as Dynamo's errors."""

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
    """Turn errors of the forward edge into Dynamo's.

    What is wrong with the request into InvalidArgument (HTTP 400), which names the field;
    what is wrong on our side into WorkerUnavailable (HTTP 503, whose text Dynamo keeps
    from the client, so it is logged).
    """
    try:
        yield
    except (BusyError, TokenizerError) as error:
        logger.warning("a request gets 503: %s", error)
        raise WorkerUnavailable(str(error)) from error
    except RequestError as error:
        raise InvalidArgument(str(error)) from error
    except HttpError as error:
        # Dynamo shows the client the text of this type only.
        if error.code == HTTPStatus.BAD_REQUEST:
            raise InvalidArgument(error.message) from error
        raise
    except ValueError as error:
        # Of the forward edge: vLLM's and pydantic's checks, with their text.
        raise InvalidArgument(str(error)) from error
