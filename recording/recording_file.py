"""Reads recordings from files with one request per line."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import msgspec

from ..base.errors import BackedgeError, shorten
from ..base.json_types import check_nesting
from ..base.limits import (
    MAX_CHOICES,
    MAX_RECORDED_MS,
    MAX_RECORDING_LINE,
    MAX_REQUEST_ATTEMPTS,
    MAX_WORKER_LOGPROBS,
)
from .recording import VERSION, Recording

MAX_U32 = (1 << 32) - 1
_decoder = msgspec.json.Decoder(Recording)


class RecordingFileError(BackedgeError):
    """A file or line is not a readable recording. The message says which and why."""


class CutLineError(RecordingFileError):
    """A file ends within a line."""


class NoRequestError(BackedgeError):
    """No request has this number or id."""


class _Version(msgspec.Struct):
    version: int = VERSION


def list_files(paths: Iterable[Path]) -> list[Path]:
    """Return the files, and in place of a folder its files in the order in which they began.

    Raises `RecordingFileError` for a folder without recordings.
    """
    found: list[Path] = []
    for path in paths:
        # A pipe in a folder would be waited for; one that is named is read.
        files = filter(Path.is_file, path.glob("*.jsonl")) if path.is_dir() else [path]
        # backedge-SOURCE-TIME-PROCESS-NUMBER.jsonl
        ordered = sorted(files, key=lambda file: file.name.split("-")[2:])
        if not ordered:
            raise RecordingFileError(f"{path} has no recordings (*.jsonl).")
        found += ordered
    return found


def read_all(paths: Iterable[Path], warn: Callable[[str], None]) -> Iterator[Recording]:
    """Yield the requests of files and folders; a line that cannot be read costs only its request.

    warn: called once for each file that has such lines. Raises `RecordingFileError` for a file
    that cannot be opened, and for a single file without any recording.
    """
    files = list_files(paths)
    for path in files:
        faults: list[RecordingFileError] = []
        is_foreign = True
        for recording in read_recordings(path, faults):
            is_foreign = False
            yield recording
        if faults and is_foreign and len(files) == 1:
            raise faults[0]
        if faults:
            warn(f"{faults[0]} Lines left out in this file: {len(faults)}.")


def find_request(recordings: Iterable[Recording], request: str) -> tuple[int, Recording]:
    """Return the request with this id, or else with this number, and its number from 1.

    Raises `NoRequestError` if there is no such request.
    """
    by_number = None
    count = 0
    for count, recording in enumerate(recordings, 1):
        if recording.params.response_id == request:
            return count, recording
        if str(count) == request:
            by_number = count, recording
    if by_number is None:
        raise NoRequestError(
            f"--request {request!r}: there are {count} requests, none with this number or id; "
            "`backedge inspect FILE` lists them."
        )
    return by_number


def read_recordings(
    path: Path, faults: list[RecordingFileError] | None = None
) -> Iterator[Recording]:
    """Yield the requests of a file in the order they were written.

    faults: collects the errors of lines that are not a recording, of a newer version or incomplete;
        None to raise the first one, and to skip an incomplete last line.
    Raises `RecordingFileError` for a file that cannot be read, and for a line that is too long.
    """
    try:
        with path.open("rb") as file:
            number = 0
            while line := file.readline(MAX_RECORDING_LINE + 1):
                number += 1
                if len(line) > MAX_RECORDING_LINE:
                    raise RecordingFileError(
                        f"{path}, line {number}: more than {MAX_RECORDING_LINE:,} bytes; "
                        "this is not a recording of Backedge."
                    )
                try:
                    recording = _decode(path, number, line)
                except RecordingFileError as error:
                    if faults is not None:
                        faults.append(error)
                    elif not isinstance(error, CutLineError):
                        raise
                else:
                    if recording is not None:
                        yield recording
    except OSError as error:
        raise RecordingFileError(
            f"{path} cannot be read ({error.strerror}); name a file that "
            "--postprocess-record has written."
        ) from error


def _decode(path: Path, number: int, line: bytes) -> Recording | None:
    """Return the recording in a line; None if the line is empty."""
    if not line.strip():
        return None
    try:
        recording = _decoder.decode(check_nesting(line))
    except msgspec.DecodeError as error:
        version = _read_version(line)
        if version is not None and version > VERSION:
            raise _newer(path, number, version) from error
        if not line.endswith(b"\n") and version is None:
            raise CutLineError(
                f"{path} ends within line {number}: its process was killed, or is still writing."
            ) from error
        raise RecordingFileError(
            f"{path}, line {number} is not a recording: {shorten(str(error))}."
        ) from error
    if recording.version > VERSION:
        raise _newer(path, number, recording.version)
    for name, least, most, values in _list_numbers(recording):
        for value in values:
            if not least <= value <= most:
                raise RecordingFileError(
                    f"{path}, line {number} is not a recording: {name} is {value:g}, but must be "
                    f"from {least:g} to {most:g}."
                )
    return recording


def _list_numbers(recording: Recording) -> Iterator[tuple[str, int, int, Iterable[float]]]:
    """Yield each kind of number that readers count or compute with: name, least, most, values."""
    params, chunks = recording.params, recording.all_chunks
    indexes = [recorded.chunk.index for recorded in chunks]
    deltas = [delta for sent in recording.sent for delta in sent.deltas]
    indexes += [delta.index for delta in deltas]
    times = [each.at_ms for each in chunks] + [each.at_ms for each in recording.sent]
    ids = [recording.prompt.tail, recording.prompt.token_ids or []]
    counts = [params.prompt_length, params.min_tokens, params.created, recording.dropped]
    turns = [params.restored_turns, params.exact_turns]
    yield "n", 1, MAX_CHOICES, [params.n]
    yield "the index of a choice", 0, params.n - 1, indexes
    yield "a time in ms", 0, MAX_RECORDED_MS, times
    yield "the time of arrival", 0, MAX_U32, [recording.began]
    yield "a token id", 0, MAX_U32, itertools.chain.from_iterable(ids)
    yield "a number of tokens, or a time", 0, MAX_U32, counts
    yield "a number of turns", 0, MAX_U32, turns
    yield "the number of alternatives", 0, MAX_WORKER_LOGPROBS, [params.logprobs or 0]
    yield "resumed", 0, len(chunks[0].chunk.token_ids) if chunks else 0, [recording.resumed]
    places = [call.after for call in recording.discarded]
    yield "the place of discarded tokens", 0, len(recording.chunks), places
    yield "the number of discarded calls", 0, MAX_REQUEST_ATTEMPTS, [len(places)]


def _read_version(line: bytes) -> int | None:
    try:
        return msgspec.json.decode(check_nesting(line), type=_Version).version
    except msgspec.DecodeError:
        return None


def _newer(path: Path, number: int, version: int) -> RecordingFileError:
    return RecordingFileError(
        f"{path}, line {number} is of version {version}; this Backedge reads up to {VERSION}. "
        "Read it with the Backedge that wrote it, or a newer one."
    )
