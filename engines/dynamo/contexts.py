"""A request in several parts, each with a context of its own, which is stopped alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import TypeVar

from .types import WorkerContext

T = TypeVar("T")


async def stop_together(
    outputs: AsyncIterator[T], context: WorkerContext, own: WorkerContext
) -> AsyncGenerator[T, None]:
    """Yield the `outputs` of a part of a request; stop its `own` context with the request's."""
    stopped = asyncio.ensure_future(context.async_killed_or_stopped())
    stopped.add_done_callback(lambda _: own.stop_generating())
    try:
        async for output in outputs:
            yield output
    finally:
        stopped.cancel()
        if isinstance(outputs, AsyncGenerator):
            await outputs.aclose()
