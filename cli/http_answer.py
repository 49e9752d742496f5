"""Reads a server's answer within bounds of time and size, whatever the server is."""

from __future__ import annotations

import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from http.client import HTTPException
from typing import NamedTuple, TypeVar

import msgspec

from ..base.errors import SetupError, shorten
from ..base.json_types import check_nesting
from ..base.limits import ANSWER_SILENCE_S, ANSWER_TIMEOUT_S, MAX_ANSWER_BYTES
from ..base.time_limit import CallTimeoutError, call_within

T = TypeVar("T")


class Answer(NamedTuple):
    """status: HTTP's, for example 200."""

    status: int
    body: bytes


class Patience:
    """How long a command waits for servers, for all answers together.

    seconds: as told to the user. left_s: what is left of them.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = self.left_s = seconds


_PATIENCE: ContextVar[Patience | None] = ContextVar("_PATIENCE", default=None)


@contextmanager
def waiting_at_most(seconds: float) -> Iterator[None]:
    """Let all answers together take `seconds`."""
    token = _PATIENCE.set(Patience(seconds))
    try:
        yield
    finally:
        _PATIENCE.reset(token)


def fetch(url: str, body: bytes | None = None) -> Answer:
    """Return the answer to a GET, or to a POST of the JSON `body`.

    Raises `SetupError` without an answer within the bounds.
    """
    if not url.startswith(("http://", "https://")):
        raise SetupError(f"{url!r} is not a URL; it must begin with http:// or https://.")
    patience = _PATIENCE.get() or Patience(ANSWER_TIMEOUT_S)
    if patience.left_s <= 0:
        raise SetupError(f"{url} is not asked: others have not answered within the time.")
    began = time.monotonic()
    try:
        # A timeout of the socket starts anew with each byte, and none bounds a name server.
        answer = call_within(patience.left_s, partial(_read, url, body))
    except CallTimeoutError as error:
        told = f"{url} has not answered completely within {patience.seconds:g} s"
        raise SetupError(f"{told}, with all that was asked before.") from error
    except (OSError, ValueError, HTTPException) as error:
        reason = shorten(str(getattr(error, "reason", error)))  # of what urllib wraps
        raise SetupError(f"{url} does not answer ({reason}).") from error
    finally:
        patience.left_s -= time.monotonic() - began
    if len(answer.body) > MAX_ANSWER_BYTES:
        raise SetupError(f"{url} answers more than {MAX_ANSWER_BYTES:,} bytes; is it Dynamo?")
    return answer


def _read(url: str, body: bytes | None) -> Answer:
    request = urllib.request.Request(  # noqa: S310 - the caller has checked the scheme
        url, body, {} if body is None else {"Content-Type": "application/json"}
    )
    try:
        answer = urllib.request.urlopen(request, timeout=ANSWER_SILENCE_S)  # noqa: S310 - as above
    except urllib.error.HTTPError as error:
        answer = error
    with answer:
        return Answer(answer.status, answer.read(MAX_ANSWER_BYTES + 1))


def decode_json(kind: type[T], text: bytes | str, source: str) -> T:
    """Return JSON that another program wrote. Raises `SetupError`, which names the source."""
    try:
        return msgspec.json.decode(check_nesting(text), type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise SetupError(f"{source} cannot be read: {shorten(str(error))}") from error
