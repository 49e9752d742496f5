"""The messages between the main process, the fork server and the pool's processes.

Between the main process and a pool process: msgpack, each message a list of `Request` or
of `Answer`. On the fork server's control socket: one JSON value per line.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from ...base.errors import ProtocolError
from ...base.json_types import JsonObject
from ...base.limits import MAX_MESSAGE_BYTES
from ...postprocess.chunk_scheduler import ScheduledChunk
from ...postprocess.messages import Chunk
from ...postprocess.settings import PostprocessSettings


class OpenRequest(msgspec.Struct, tag=True, array_like=True):
    """Start a request, or restart it in a new process.

    key: the request's number in the main process.
    params: as JSON, which supports integers of any length, unlike msgpack.
    token_ids: the request's, as for `PostprocessBackend.start`.
    processed: number of chunks to come that another process has already processed.
    seen: number of these whose tokens the client has got, by choice. shown: number of them up to
        the last that gave it a delta.
    parsed: number of chunks after which parsers are no longer used; None: they are to the end.
    measure: whether to measure the time of each stage.
    """

    key: int
    params: str
    token_ids: list[int]
    processed: int
    seen: list[int]
    shown: list[int]
    parsed: int | None
    measure: bool


class Feed(msgspec.Struct, tag=True, array_like=True):
    """One chunk from the engine.

    arrived: in seconds of the monotonic clock. age_s: the longest time its first token may have
    waited in the engine.
    """

    key: int
    chunk: Chunk
    arrived: float
    age_s: float


class Flush(msgspec.Struct, tag=True, array_like=True):
    """The engine has ended the request."""

    key: int


class Close(msgspec.Struct, tag=True, array_like=True):
    """Drop the request."""

    key: int


class Ready(msgspec.Struct, tag=True, array_like=True):
    """The process accepts requests."""


class Progress(msgspec.Struct, tag=True, array_like=True):
    """The number of the request's chunks processed so far."""

    key: int
    chunks: int


class Result(msgspec.Struct, tag=True, array_like=True):
    """A chunk for the client.

    chunks: number of its choice's chunks processed for it. of_all: of all choices.
    """

    key: int
    chunks: int
    of_all: int
    scheduled: ScheduledChunk


class Failure(msgspec.Struct, tag=True, array_like=True):
    """A parser raised after `position` output tokens. fatal: this ends the request."""

    key: int
    parser: str
    position: int
    reason: str
    fatal: bool


Request = OpenRequest | Feed | Flush | Close
Answer = Ready | Progress | Result | Failure
RequestAnswer = Progress | Result | Failure
"""An answer about one request."""


encode = msgspec.msgpack.Encoder().encode
decode_requests = msgspec.msgpack.Decoder(list[Request]).decode
_decode_answers = msgspec.msgpack.Decoder(list[Answer]).decode


def decode_answers(message: bytes) -> list[Answer]:
    """Decode a process's message. Raises `ProtocolError` if it is not a list of answers."""
    if len(message) > MAX_MESSAGE_BYTES:
        raise ProtocolError(f"a message of {len(message)} bytes; at most {MAX_MESSAGE_BYTES}")
    try:
        return _decode_answers(message)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ProtocolError(f"not a list of answers: {error}") from error


class ForkServerStart(msgspec.Struct):
    """The first line sent to the fork server.

    folder: of the sockets and monitors. arguments: for the build function.
    """

    folder: str
    settings: PostprocessSettings
    arguments: JsonObject


class Forked(msgspec.Struct):
    """The fork server forked process `number`; number -1 means that it is ready to fork.

    pid: 0 if the process could not be forked.
    """

    number: int
    pid: int


def socket_path(folder: str | Path, number: int) -> Path:
    """Return the path of the socket of process `number`."""
    return Path(folder) / f"{number}.sock"
