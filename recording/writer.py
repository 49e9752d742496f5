"""Recordings are written by a thread of their own, which no request waits for."""

from __future__ import annotations

import atexit
import logging
import os
import queue
import threading
from collections.abc import Callable
from typing import Literal, get_args

import msgspec

from .flags import RecordSettings
from .folder import RecordingFolder
from .recording import Recording, Source

logger = logging.getLogger(__name__)

# Requests that have ended and wait for the thread.
MAX_WAITING = 64
# How long the end of the process waits for them.
_END_S = 2.0

Result = Literal["written", "overload", "unwritable", "too_long", "failed"]
"""What becomes of a recording; all but the first are losses."""


class RecordingCounts(msgspec.Struct):
    """What became of recordings. results: their numbers. written_bytes: of all lines."""

    results: dict[Result, int] = msgspec.field(
        default_factory=lambda: dict.fromkeys(get_args(Result), 0)
    )
    written_bytes: int = 0


class RecordingWriter:
    """Writes recordings; one per process.

    counts: for metrics; also of recordings that were given up before they came here.
    """

    def __init__(self, settings: RecordSettings, source: Source) -> None:
        self.counts = RecordingCounts()
        self._folder = RecordingFolder(settings.folder, source, settings.limit_bytes)
        self._path = settings.folder
        self._queue: queue.Queue[Callable[[], Recording] | None] = queue.Queue(MAX_WAITING)
        self._thread: threading.Thread | None = None
        self._encode = msgspec.json.Encoder().encode
        self._warned: set[Result] = set()

    def submit(self, build: Callable[[], Recording]) -> bool:
        """Have the recording written that `build` returns; it is called in the thread.

        Return whether there was room for it. Never waits.
        """
        if self._thread is None:
            self._start()
        try:
            self._queue.put_nowait(build)
        except queue.Full:
            self.lose("overload", f"{MAX_WAITING} recordings wait for the disk already")
            return False
        return True

    def lose(self, result: Result, reason: str) -> None:
        """Count a recording that is not written; log the first of each kind."""
        self.counts.results[result] += 1
        if result not in self._warned:
            self._warned.add(result)
            logger.warning(
                "a request is not recorded in %s: %s; further ones are counted only (%s)",
                self._path,
                reason,
                result,
            )

    def close(self) -> None:
        """Write what waits, for a short time, and end the thread."""
        thread, self._thread = self._thread, None
        if thread is None or not thread.is_alive():
            return
        try:
            self._queue.put(None, timeout=_END_S)
        except queue.Full:
            return
        thread.join(_END_S)

    def _start(self) -> None:
        # As late as this, so that an engine that forks when it starts has no thread to lose.
        self._thread = threading.Thread(target=self._run, name="backedge-recording", daemon=True)
        self._thread.start()
        pid = os.getpid()
        atexit.register(lambda: self.close() if os.getpid() == pid else None)

    def _run(self) -> None:
        while (build := self._queue.get()) is not None:
            self._write(build)
            del build  # not until the next one comes
        self._folder.close()

    def _write(self, build: Callable[[], Recording]) -> None:
        try:
            line = self._encode(build()) + b"\n"
        except Exception as error:  # noqa: BLE001 - a tokenizer is third-party code
            # Its text may be of the request, whose words are not to be logged.
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
