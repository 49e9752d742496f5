"""Rejects a request so that the client sees the reason."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from http import HTTPStatus

from ..base.errors import PoolAbsentError
from ..base.json_types import JsonObject

logger = logging.getLogger(__name__)


async def refuse(error: Exception) -> AsyncGenerator[JsonObject, None]:
    """Raise Dynamo's InvalidArgument (HTTP 400), as an engine that rejects a request does.

    A generator, because Dynamo treats an exception before the first output is requested as the
    death of the worker.
    """
    from dynamo.llm.exceptions import InvalidArgument  # late: processes of the pool need no Dynamo

    logger.warning("a request is rejected: %s", error)
    raise InvalidArgument(str(error)) from error
    yield {}


def show_refusal(error: Exception) -> Exception:
    """Return an InvalidArgument for a handler's HttpError 400, most other errors unchanged.

    A `PoolAbsentError` becomes an EngineShutdown, with which Dynamo moves the request.
    Dynamo shows clients a 400's text only if it is an InvalidArgument. For requests that the
    engine rejects, its vLLM handlers raise that in 1.6 but HttpError in 1.7.
    """
    from dynamo.llm.exceptions import EngineShutdown, HttpError, InvalidArgument

    if isinstance(error, PoolAbsentError):
        error = EngineShutdown(str(error))
    if isinstance(error, HttpError) and error.code == HTTPStatus.BAD_REQUEST:
        error = InvalidArgument(error.message)
    return error
