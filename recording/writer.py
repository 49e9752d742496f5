"""Writes recordings in a thread of its own; requests never wait for it."""

from __future__ import annotations

import atexit
import logging
import os
import queue
import threading
from collections.abc import Callable
from typing import Literal, get_args

import msgspec

from ..base.limits import MAX_WAITING_RECORDINGS
from .flags import RecordSettings
from .folder import RecordingFolder
from .recording import Recording, Source

logger = logging.getLogger(__name__)

# How long shutdown waits for them.
_END_S = 2.0

Result = Literal["written", "overload", "unwritable", "too_long", "failed"]
"""The result of a recording; all but the first are losses."""


class RecordingCounts(msgspec.Struct):
    """Counts of recordings by result. written_bytes: of all lines."""

    results: dict[Result, int] = msgspec.field(
        default_factory=lambda: dict.fromkeys(get_args(Result), 0)
    )
    written_bytes: int = 0


class RecordingWriter:
    """Writes recordings; one object per process.

    counts: for metrics; includes recordings that were dropped earlier.
    """

    def __init__(self, settings: RecordSettings, source: Source) -> None:
        self.counts = RecordingCounts()
        self._folder = RecordingFolder(settings.folder, source, settings.limit_bytes)
        self._path = settings.folder
        self._queue: queue.Queue[Callable[[], Recording] | None] = queue.Queue(
            MAX_WAITING_RECORDINGS
        )
        self._thread: threading.Thread | None = None
        self._encode = msgspec.json.Encoder().encode
        self._warned: set[Result] = set()

    def submit(self, build: Callable[[], Recording]) -> bool:
        """Have the thread write the recording that `build` returns; `build` runs in the thread.

        Return whether there was room. Never waits.
        """
        if self._thread is None:
            self._start()
        try:
            self._queue.put_nowait(build)
        except queue.Full:
            self.lose("overload", f"{MAX_WAITING_RECORDINGS} recordings already wait for the disk")
            return False
        return True

    def lose(self, result: Result, reason: str) -> None:
        """Count a recording that is lost; log the first one of each kind."""
        self.counts.results[result] += 1
        if result not in self._warned:
            self._warned.add(result)
            logger.warning(
                "a request is not recorded in %s: %s; further ones are only counted (%s)",
                self._path,
                reason,
                result,
            )

    def close(self) -> None:
        """Write what waits, for a limited time, then end the thread."""
        thread, self._thread = self._thread, None
        if thread is None or not thread.is_alive():
            return
        try:
            self._queue.put(None, timeout=_END_S)
        except queue.Full:
            return
        thread.join(_END_S)

    def _start(self) -> None:
        # Start late, because an engine that forks at its start would lose the thread.
        self._thread = threading.Thread(target=self._run, name="backedge-recording", daemon=True)
        self._thread.start()
        pid = os.getpid()
        atexit.register(lambda: self.close() if os.getpid() == pid else None)

    def _run(self) -> None:
        while (build := self._queue.get()) is not None:
            self._write(build)
            del build  # free it before waiting for the next one
        self._folder.close()

    def _write(self, build: Callable[[], Recording]) -> None:
        try:
            line = self._encode(build()) + b"\n"
        except Exception as error:  # noqa: BLE001 - a tokenizer is third-party code
            # The exception's text may quote the request, which must not be logged.
            self.lose("failed", f"{type(error).__name__} while its recording was made")
            return
        if len(line) > self._folder.longest_line:
            self.lose("too_long", f"it would take {len(line)} bytes")
            return
        try:
            self._folder.append(line)
        except OSError as error:
            self.lose("unwritable", str(error))
            return
        self.counts.results["written"] += 1
        self.counts.written_bytes += len(line)
