"""Writes recordings in a thread of its own; requests never wait for it.

The files are private and rotated, with a common size limit.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import os
import queue
import re
import stat
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal, get_args

import msgspec

from ..base.json_types import encode_line
from ..base.limits import MAX_FILE_BYTES, MAX_WAITING_RECORDINGS
from ..base.log import get_logger
from .flags import RECORD_FLAG, RecordSettings
from .recording import Recording, Source

logger = get_logger(__name__)

# How long shutdown waits for them.
_END_S = 2.0

# A file may take this part of the common limit, so that the oldest files can be deleted.
LARGEST_PART = 4
_OURS = re.compile(r"backedge-(?:worker|frontend)-\d{8}T\d{6}-\d+-\d{4,}\.jsonl")
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
# Number of file names to try.
_MAX_TAKEN = 1000
_PRIVATE_FILE, _PRIVATE_FOLDER = 0o600, 0o700

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
    Logs a warning if nothing can be written there now.
    """

    def __init__(self, settings: RecordSettings, source: Source) -> None:
        self.counts = RecordingCounts()
        self._folder = RecordingFolder(settings.folder, source, settings.limit_bytes)
        self._path = settings.folder
        self._queue: queue.Queue[Callable[[], Recording] | None] = queue.Queue(
            MAX_WAITING_RECORDINGS
        )
        self._thread: threading.Thread | None = None
        self._warned: set[Result] = set()
        if not can_write(Path(self._path)):
            logger.warning("%s %s: this process cannot write there", RECORD_FLAG, self._path)

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
            line = encode_line(build()) + b"\n"
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


def can_write(folder: Path) -> bool:
    """Whether a folder, or the first of its parents that exists, can be written; makes nothing."""
    there = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    return there.is_dir() and os.access(there, os.W_OK | os.X_OK)


class RecordingFolder:
    """Appends lines to files that only this user can read.

    File names are made only here, from source, time, process and a number. Several processes may
    share the folder; threads may not share this object.

    path: created if missing. limit_bytes: of all recordings in it; before a file begins, the
        oldest are deleted to make room.
    """

    def __init__(self, path: str, source: str, limit_bytes: int) -> None:
        self._path = path
        self._source = source
        self._limit = limit_bytes
        self._file_limit = max(1, min(MAX_FILE_BYTES, limit_bytes // LARGEST_PART))
        self._file: int | None = None
        self._size = 0
        self._files = 0

    @property
    def longest_line(self) -> int:
        """The limit of a line in bytes; a line must fit in a file."""
        return self._file_limit

    def append(self, line: bytes) -> None:
        """Append `line`, whole or not at all. Raises OSError if it cannot be written."""
        if self._file is not None and self._size + len(line) > self._file_limit:
            self.close()
        if self._file is None:
            self._file, self._size = self._begin(), 0
        try:
            write_all(self._file, line)
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, self._size)
            self.close()
            raise
        self._size += len(line)

    def close(self) -> None:
        """Close the file that is being written, if any."""
        if self._file is not None:
            file, self._file = self._file, None
            with contextlib.suppress(OSError):
                os.close(file)

    def _begin(self) -> int:
        """Make room and return a new file."""
        Path(self._path).mkdir(mode=_PRIVATE_FOLDER, parents=True, exist_ok=True)
        # Use only this descriptor, in case the path changes its target.
        folder = os.open(self._path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            make_room(folder, self._limit - self._file_limit)
            return self._create(folder)
        finally:
            os.close(folder)

    def _create(self, folder: int) -> int:
        """Return a new file. Processes of two machines may share a number in a shared folder."""
        began = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
        for _ in range(_MAX_TAKEN):
            self._files += 1
            name = f"backedge-{self._source}-{began}-{os.getpid()}-{self._files:04}.jsonl"
            with contextlib.suppress(FileExistsError):
                return os.open(name, _NEW_FILE, _PRIVATE_FILE, dir_fd=folder)
        raise FileExistsError(errno.EEXIST, "all names of this second are taken", self._path)


def write_all(file: int, data: bytes) -> None:
    """Write all of `data`. Raises OSError."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(file, rest) :]


def make_room(folder: int, limit_bytes: int) -> None:
    """Delete the oldest recordings until the rest take at most `limit_bytes`.

    folder: its file descriptor. Links and files with other names are ignored.
    """
    found = []
    for name in os.listdir(folder):
        if _OURS.fullmatch(name) is None:
            continue
        with contextlib.suppress(FileNotFoundError):  # another process also makes room
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if stat.S_ISREG(status.st_mode):
                found.append((status.st_mtime_ns, name, status.st_size))
    total = sum(size for _, _, size in found)
    for _, name, size in sorted(found):
        if total <= limit_bytes:
            return
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=folder)
        total -= size
