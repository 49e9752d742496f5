"""Lets only such exceptions leave a thread as an event loop survives.

Chat templates, tokenizers and engines may raise anything. A future cannot hold StopIteration, so
awaiting it never ends; SystemExit and KeyboardInterrupt end the loop that awaits them; a library in
Rust that panics raises a BaseException as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dynamo.llm.exceptions import DynamoException, HttpError

from ..base.errors import BackedgeError, shorten
from ..templates.rendering import SlowTemplateError

# The errors that `as_http_errors` translates; vLLM and pydantic check requests with ValueError.
EXPECTED = (BackedgeError, DynamoException, HttpError, ValueError)


class PreparationError(BackedgeError):
    """Rendering or tokenization failed, not because of the request. HTTP 500."""

    def __init__(self, cause: BaseException) -> None:
        described = f"{type(cause).__name__}: {shorten(str(cause))}".removesuffix(": ")
        super().__init__(f"the request could not be prepared ({described}).")
        self.__cause__ = cause


@contextmanager
def contained(*expected: type[BaseException]) -> Iterator[None]:
    """Raise `PreparationError` for an exception that is no request's fault and not `expected`."""
    try:
        yield
    except (*EXPECTED, SlowTemplateError, *expected):
        raise
    except BaseException as error:
        raise PreparationError(error) from error
