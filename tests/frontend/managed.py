"""An asynchronous context manager that tells where it is entered and exited."""

from __future__ import annotations

import asyncio
import threading
from types import TracebackType


class Managed:
    """An asynchronous context manager that writes down in which thread it is entered and left."""

    def __init__(
        self, error: BaseException | None = None, go_on: threading.Event | None = None
    ) -> None:
        self.error = error
        self.go_on = go_on
        self.entered = threading.Event()
        self.left = threading.Event()
        self.threads: set[str] = set()

    async def __aenter__(self) -> str:
        self.threads.add(threading.current_thread().name)
        self.entered.set()
        if self.error is not None:
            raise self.error
        if self.go_on is not None:
            await asyncio.to_thread(self.go_on.wait, 30.0)
        return "entered"

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.threads.add(threading.current_thread().name)
        self.left.set()
