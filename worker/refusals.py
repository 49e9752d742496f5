"""How a worker refuses a request, so that the client reads why."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from http import HTTPStatus

from ..base.json_types import JsonObject

logger = logging.getLogger(__name__)


async def refuse(error: Exception) -> AsyncGenerator[JsonObject, None]:
    """Raise Dynamo's InvalidArgument (HTTP 400), as an engine that refuses a request.

    A generator, because Dynamo takes what is raised before the first output is asked for as the
    death of the worker.
    """
    from dynamo.llm.exceptions import InvalidArgument  # late: processes of the pool need no Dynamo

    logger.warning("a request is refused: %s", error)
    raise InvalidArgument(str(error)) from error
    yield {}


def show_refusal(error: Exception) -> Exception:
    """Return `error`, or an InvalidArgument for a handler's HttpError 400.

    Of all 400s, Dynamo shows the client only the text of InvalidArgument. Its handlers of vLLM
    raise that in 1.6 and HttpError in 1.7 for what the engine refuses.
    """
    from dynamo.llm.exceptions import HttpError, InvalidArgument

    if isinstance(error, HttpError) and error.code == HTTPStatus.BAD_REQUEST:
        error = InvalidArgument(error.message)
    return error
