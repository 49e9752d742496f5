"""Reads recordings from a file with one request per line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from ..base.errors import BackedgeError, shorten
from ..base.limits import MAX_RECORDING_LINE
from .recording import VERSION, Recording

_decoder = msgspec.json.Decoder(Recording)


class RecordingFileError(BackedgeError):
    """A file or line is not a readable recording. The message says which and why."""


class _Version(msgspec.Struct):
    version: int = VERSION


def read_recordings(path: Path) -> Iterator[Recording]:
    """Yield the requests of a file in the order they were written.

    An incomplete last line is skipped: the recorder died while writing it.
    Raises `RecordingFileError` for a file that cannot be read, and for a line that is not a
    recording, too long, or of a newer version.
    """
    try:
        with path.open("rb") as file:
            number = 0
            while line := file.readline(MAX_RECORDING_LINE + 1):
                number += 1
                whole = line.endswith(b"\n")
                if len(line) > MAX_RECORDING_LINE:
                    raise RecordingFileError(
                        f"{path}, line {number}: more than {MAX_RECORDING_LINE:,} bytes; "
                        "this is not a recording of Backedge."
                    )
                if line.strip() and (recording := _decode(path, number, line, whole=whole)):
                    yield recording
    except OSError as error:
        raise RecordingFileError(
            f"{path} cannot be read ({error.strerror}); name a file that "
            "--postprocess-record has written."
        ) from error


def _decode(path: Path, number: int, line: bytes, *, whole: bool) -> Recording | None:
    """Return the recording in a line; None if the line is incomplete."""
    try:
        recording = _decoder.decode(line)
    except (msgspec.DecodeError, RecursionError) as error:
        version = _read_version(line)
        if version is not None and version > VERSION:
            raise _newer(path, number, version) from error
        if not whole and version is None:
            return None
        raise RecordingFileError(
            f"{path}, line {number} is not a recording: {shorten(str(error))}."
        ) from error
    if recording.version > VERSION:
        raise _newer(path, number, recording.version)
    return recording


def _read_version(line: bytes) -> int | None:
    try:
        return msgspec.json.decode(line, type=_Version).version
    except (msgspec.DecodeError, RecursionError):
        return None


def _newer(path: Path, number: int, version: int) -> RecordingFileError:
    return RecordingFileError(
        f"{path}, line {number} is of version {version}; this Backedge reads up to {VERSION}. "
        "Read it with the Backedge that wrote it, or a newer one."
    )
