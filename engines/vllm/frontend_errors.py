"""What vLLM's checks of a request say, with the field that is wrong."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from dynamo.llm.exceptions import HttpError
from pydantic import ValidationError
from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
from vllm.exceptions import VLLMValidationError

from ...base.errors import RequestError, show
from ...base.json_types import JsonObject
from ...frontend.request.sampling import prompt_error

# Source: vllm/v1/engine/input_processor.py.
_TOO_LONG = re.compile(r"prompt \(length (\d+)\).*longer than the maximum model length of (\d+)")


@contextmanager
def naming_fields(raw: JsonObject) -> Iterator[None]:
    """Raise `RequestError` for what vLLM refuses, as far as it says which field is wrong.

    raw: the request.
    """
    try:
        yield
    except HttpError as error:
        if (named := _find_parameter(raw, error)) is not None:
            raise named from error
        raise
    except ValidationError as error:
        first = error.errors()[0]
        # Parts of messages are validated later, by themselves.
        is_whole = error.title == ChatCompletionRequest.__name__
        field = _find_path(raw, first["loc"]) if is_whole else "messages"
        raise _refused_value(field, first["input"], first["msg"]) from error


def _find_parameter(raw: JsonObject, error: HttpError) -> RequestError | None:
    """Return the error of vLLM that Dynamo made an HTTP error of, with its field.

    An error without its parameter begins with the name, if it is about one.
    """
    if (found := _TOO_LONG.search(error.message)) is not None:
        return prompt_error(int(found[1]), int(found[2]))
    cause = error.__cause__
    if not isinstance(cause, VLLMValidationError):
        return None
    if cause.parameter is not None:
        return _refused_value(cause.parameter, cause.value, cause.args[0])
    name = str(cause.args[0]).partition(" ")[0]
    return _refused_value(name, raw[name], cause.args[0]) if name in raw else None


def _refused_value(field: str, value: object, message: str) -> RequestError:
    """Return the error with vLLM's own message."""
    return RequestError(field, f"cannot be {show(value)}: {message.rstrip('.')}")


def _find_path(raw: object, steps: Sequence[str | int]) -> str:
    """Return the JSON path of what pydantic found, whose steps also name types of its own."""
    path = ""
    for position, step in enumerate(steps):
        is_last = position == len(steps) - 1
        if isinstance(raw, list) and isinstance(step, int) and step < len(raw):
            path, raw = f"{path}[{step}]", raw[step]
        elif isinstance(raw, dict) and (step in raw or (is_last and str(step).islower())):
            path, raw = f"{path}.{step}", raw.get(step)
    return path.removeprefix(".")
