"""The files of recordings: private, rotated, with a common size limit."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import time
from pathlib import Path

from ..base.limits import MAX_FILE_BYTES

# A file may take this part of the common limit, so that the oldest files can be deleted.
LARGEST_PART = 4
_OURS = re.compile(r"backedge-(?:worker|frontend)-\d{8}T\d{6}-\d+-\d{4,}\.jsonl")
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
# Number of file names to try.
_MAX_TAKEN = 1000
_PRIVATE_FILE, _PRIVATE_FOLDER = 0o600, 0o700


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
