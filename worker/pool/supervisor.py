"""The main process's side of the pool: which process works on which request, and what if it does not come back."""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from ...parsers.errors import ParserFailedError
from ...postprocess.chunk_scheduler import MergeDelays
from ...postprocess.fallback import OnError, Report
from ...postprocess.messages import PostprocessParams
from ...postprocess.postprocessor import log_failure
from ...postprocess.stage_timing import Clock
from . import messages
from .fork_server import ForkServer
from .process_handle import ProcessHandle, ProcessMessage
from .stream import PooledStream

logger = logging.getLogger(__name__)

# A step that takes this part of the deadline is left alone with its process; the other requests get a new one.
QUARANTINE_PART = 0.25
# How often a request may be at work in a process that dies before it counts as the cause.
MAX_DEATHS = 2
CORES_PER_PROCESS = 8
MAX_AUTO_PROCESSES = 4


class PoolSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How the pool works.

    build: "module:function" that returns the detokenizer and parser factories, called
        with `arguments` (JSON values) in a process without any of ours.
    deadline_s: of one step, the time for one chunk of the engine.
    """

    processes: int
    build: str
    arguments: dict[str, Any]
    parsers_name: str
    delays: MergeDelays
    on_error: OnError = "degrade"
    deadline_s: float = 2.0


def auto_processes() -> int:
    """Return how many processes the machine has room for: none if it has few cores, a few if it has many."""
    return min(MAX_AUTO_PROCESSES, len(os.sched_getaffinity(0)) // CORES_PER_PROCESS)


class PoolStats:
    """What the pool counts: processes killed at the deadline, processes that died, requests that began again."""

    def __init__(self) -> None:
        self.kills = 0
        self.deaths = 0
        self.replays = 0


class PoolSupervisor:
    """The processes, and the requests that each works on; see `PostprocessBackend`. To be made and used in one event loop."""

    def __init__(self, settings: PoolSettings, report: Report = log_failure) -> None:
        self.settings = settings
        self.parsers_name = settings.parsers_name
        self.stats = PoolStats()
        self._report = report
        self._loop = asyncio.get_running_loop()
        self._numbers = itertools.count(1)
        self._keys = itertools.count(1)
        self._streams: dict[int, PooledStream] = {}
        self._fork_server = ForkServer(settings)
        self._processes = [self._new_process() for _ in range(settings.processes)]
        self._quarantined: list[ProcessHandle] = []
        self._watch: asyncio.TimerHandle | None = None

    @property
    def depth(self) -> int:
        """Chunks that wait to be processed, or are."""
        # A list, since it is asked by the thread that serves /metrics.
        return sum(stream.behind for stream in list(self._streams.values()))

    @property
    def requests(self) -> int:
        """Requests in the pool."""
        return len(self._streams)

    @property
    def pids(self) -> list[int]:
        """Of the processes that are there and serve."""
        return [process.pid for process in self._processes if process.ready]

    async def ready(self) -> None:
        """Wait until all processes serve. Raises `SetupError` if they cannot start."""
        await self._fork_server.ready
        while waiting := [process.started for process in self._processes if not process.ready]:
            await asyncio.wait(waiting)

    def start(
        self,
        params: PostprocessParams,
        token_ids: Sequence[int],
        now: float,
        wake: Callable[[], None],
        clock: Clock | None = None,
    ) -> PooledStream:
        """Begin a request in the process that has the fewest; measured is with the clock of the processes."""
        key = next(self._keys)
        process = min(self._processes, key=lambda process: len(process.streams))
        stream = PooledStream(self, key, params, list(token_ids), wake, measured=clock is not None)
        self._streams[key] = stream
        stream.move(process)
        if self._watch is None:
            self._look_later()
        return stream

    def closed(self, stream: PooledStream) -> None:
        """Forget a request."""
        self._streams.pop(stream.key, None)
        for process in self._quarantined[:]:
            if not process.streams:
                self._quarantined.remove(process)
                process.stop()

    def failed(self, failure: ParserFailedError) -> None:
        """Report a parser that raised in its process."""
        self._report(failure)

    def close(self) -> None:
        """End all processes, and leave nothing behind."""
        if self._watch is not None:
            self._watch.cancel()
        for process in (*self._processes, *self._quarantined):
            process.stop()
        self._fork_server.stop()

    def _new_process(self) -> ProcessHandle:
        return ProcessHandle(self._fork_server, next(self._numbers), self._answer, self._died)

    def _answer(self, process: ProcessHandle, answer: ProcessMessage) -> None:
        stream = self._streams.get(answer.key)
        if stream is not None and stream in process.streams:  # else another process has it by now
            stream.answer(answer)

    # Processes that do not come back.

    def _look_later(self) -> None:
        self._watch = self._loop.call_later(
            self.settings.deadline_s * QUARANTINE_PART / 2, self._look
        )

    def _look(self) -> None:
        """Look for steps that take too long."""
        self._watch = None
        now = self._loop.time()
        for process in (*self._processes, *self._quarantined):
            current_step = process.current_step()
            if current_step is None:
                continue
            if now - current_step.since > self.settings.deadline_s:
                self._overrun(process, current_step)
            elif (
                now - current_step.since > self.settings.deadline_s * QUARANTINE_PART
                and process in self._processes
            ):
                self._quarantine(process, current_step.key)
        if self._streams:
            self._look_later()

    def _quarantine(self, process: ProcessHandle, key: int) -> None:
        """Give the requests that wait behind a long step another process."""
        others = [stream for stream in process.streams if stream.key != key]
        self._replace(process)
        for stream in others:
            self._move(stream)
        if process.streams:
            self._quarantined.append(process)
        else:
            process.stop()

    def _overrun(self, process: ProcessHandle, step: messages.Step) -> None:
        """Kill a process whose step is beyond the deadline."""
        self.stats.kills += 1
        logger.error(
            "a step of the %s parsers took longer than %g s; process %d is killed",
            self.parsers_name,
            self.settings.deadline_s,
            process.pid,
        )
        streams = list(process.streams)
        self._remove(process)
        for stream in streams:
            if stream.key == step.key:
                self._degrade(
                    stream,
                    step,
                    f"a step took longer than the deadline of {self.settings.deadline_s:g} s",
                )
            else:
                self._move(stream)

    def _died(self, process: ProcessHandle) -> None:
        """Begin the requests of a process that died again, in another one."""
        self.stats.deaths += 1
        current_step = process.current_step()
        logger.error(
            "process %d of the pool died; its %d requests go on in another",
            process.pid,
            len(process.streams),
        )
        streams = list(process.streams)
        self._remove(process)
        for stream in streams:
            if current_step is not None and stream.key == current_step.key:
                stream.deaths += 1
                if stream.deaths >= MAX_DEATHS:
                    self._degrade(
                        stream,
                        current_step,
                        f"{stream.deaths} processes died while they worked for it",
                    )
                    continue
            self._move(stream)

    def _remove(self, process: ProcessHandle) -> None:
        if process in self._processes:
            self._replace(process)
        else:
            self._quarantined.remove(process)
        process.stop()

    def _replace(self, process: ProcessHandle) -> None:
        self._processes[self._processes.index(process)] = self._new_process()

    def _move(self, stream: PooledStream) -> None:
        self.stats.replays += 1
        stream.move(min(self._processes, key=lambda process: len(process.streams)))

    def _degrade(self, stream: PooledStream, step: messages.Step, reason: str) -> None:
        """Have the request go on without its parser from this step on, or fail."""
        stream.processed = max(stream.processed, step.chunks)  # the process had no time to tell
        failure = ParserFailedError(
            self.parsers_name, stream.params.response_id, stream.position, reason
        )
        self._report(failure)
        if self.settings.on_error == "fail":
            stream.fail(failure)
        else:
            stream.degraded.append(
                messages.DisableParser(stream.next_index, stream.processed, reason)
            )
            self._move(stream)
