"""Errors of calls, in one line."""

from __future__ import annotations

import grpc
import pytest
from backedge.base import limits
from backedge.worker.grpc_calls import describe_error


@pytest.mark.parametrize(
    ("details", "said"),
    [
        ("why", "NOT_FOUND why"),
        (None, "NOT_FOUND"),
        ("x" * 10_000, ("NOT_FOUND " + "x" * 10_000)[: limits.MAX_ERROR]),
    ],
)
def test_an_error_is_a_line(details: str | None, said: str) -> None:
    metadata = grpc.aio.Metadata()
    code = grpc.StatusCode.NOT_FOUND
    error = grpc.aio.AioRpcError(code, metadata, metadata, details=details)
    assert describe_error(error) == said
