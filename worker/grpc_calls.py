"""Running calls of gRPC, and their errors."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

import grpc
from google.protobuf.message import Message

from ..base import limits


class Call(Protocol):
    """A running call with a stream of responses. Source: `grpc.aio.UnaryStreamCall`."""

    def __aiter__(self) -> AsyncIterator[Message]:
        """Iterate over the responses. Raises `grpc.aio.AioRpcError`."""

    def cancel(self) -> bool:
        """End the call, and what the other end does for it."""


def describe_error(error: grpc.aio.AioRpcError) -> str:
    """Return the error of a call in one line."""
    code: str = error.code().name
    return f"{code} {error.details() or ''}".strip()[: limits.MAX_ERROR]
