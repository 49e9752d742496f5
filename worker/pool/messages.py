"""What the main process and those of the pool tell each other; a message is a list of these."""

from __future__ import annotations

import mmap
import struct
import time
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from ...postprocess.chunk_scheduler import MergeDelays, ScheduledChunk
from ...postprocess.fallback import OnError
from ...postprocess.messages import Chunk, PostprocessParams


class OpenRequest(msgspec.Struct, tag=True, array_like=True):
    """Begin a request, or begin it again in a new process.

    key: the request's number in the main process. token_ids: as for `work.PostprocessBackend.start`.
    replayed: how many chunks come that another process has processed. taken: how many of
        each choice's the client has seen. degraded: where parsers are to be left.
    measured: what each stage takes.
    """

    key: int
    params: PostprocessParams
    token_ids: list[int]
    replayed: int
    taken: list[int]
    degraded: list[DisableParser]
    measured: bool


class DisableParser(msgspec.Struct, array_like=True):
    """The choice whose parser is left behind this many chunks of the request, and why."""

    index: int
    chunks: int
    reason: str


class Feed(msgspec.Struct, tag=True, array_like=True):
    """A chunk of the engine. arrived, age_s: see `ChunkScheduler.add`."""

    key: int
    chunk: Chunk
    arrived: float
    age_s: float


class Flush(msgspec.Struct, tag=True, array_like=True):
    """Nothing more will come."""

    key: int


class Close(msgspec.Struct, tag=True, array_like=True):
    """Forget the request."""

    key: int


class Ready(msgspec.Struct, tag=True, array_like=True):
    """The process is there."""


class Progress(msgspec.Struct, tag=True, array_like=True):
    """How many chunks of a request have been processed."""

    key: int
    chunks: int


class Result(msgspec.Struct, tag=True, array_like=True):
    """What a chunk is to hold. chunks: how many of the choice's have been taken by now."""

    key: int
    chunks: int
    taken: ScheduledChunk


class Failure(msgspec.Struct, tag=True, array_like=True):
    """A parser raised. fatal: and the request ends with it."""

    key: int
    parser: str
    position: int
    reason: str
    fatal: bool


Request = OpenRequest | Feed | Flush | Close
Answer = Ready | Progress | Result | Failure

encode = msgspec.msgpack.Encoder().encode
decode_requests = msgspec.msgpack.Decoder(list[Request]).decode
decode_answers = msgspec.msgpack.Decoder(list[Answer]).decode


class ProcessSettings(msgspec.Struct, frozen=True):
    """What a process of the pool has to know. folder: for the sockets."""

    folder: str
    delays: MergeDelays
    on_error: OnError


class ForkServerStart(msgspec.Struct):
    """The first message on the control socket. arguments: of the function on the command line, as JSON values."""

    settings: ProcessSettings
    arguments: dict[str, Any]


class Forked(msgspec.Struct):
    """The answer to a number; pid 0 and number -1 when the template is ready to fork."""

    number: int
    pid: int


class Step(NamedTuple):
    """What a process is working on: since when, which request, and behind how many of its chunks."""

    since: float
    key: int
    chunks: int


class StepMonitor:
    """Shared memory that tells what a process is working on, also while it can tell nothing itself.

    path: of the file behind it.
    """

    LAYOUT = struct.Struct("=dqq")

    def __init__(self, path: Path) -> None:
        with path.open("a+b") as file:
            file.truncate(self.LAYOUT.size)
            self._memory = mmap.mmap(file.fileno(), self.LAYOUT.size)

    def begin(self, key: int, chunks: int) -> None:
        """Note that a step of request `key` begins, after so many chunks of it."""
        self.LAYOUT.pack_into(self._memory, 0, time.monotonic(), key, chunks)

    def end(self) -> None:
        """Note that it is done."""
        self.LAYOUT.pack_into(self._memory, 0, 0.0, 0, 0)

    def read(self) -> Step | None:
        """Return the step that is being worked on, if any."""
        step = Step(*self.LAYOUT.unpack_from(self._memory))
        return step if step.since else None

    def close(self) -> None:
        """Give the memory back."""
        self._memory.close()


def socket_path(folder: str | Path, number: int) -> Path:
    """Return the path of a process's socket."""
    return Path(folder) / f"{number}.sock"


def monitor_path(folder: str | Path, number: int) -> Path:
    """Return the path of a process's `StepMonitor`."""
    return Path(folder) / f"{number}.busy"
