"""The main process's side of the pool: deadlines, deaths and blame.

It assigns requests to processes, kills a process whose step exceeds the deadline, replaces
processes that died, and decides which request was the cause.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable

import msgspec
from typing_extensions import override

from ...base.errors import ParserFailedError, PoolAbsentError, SetupError
from ...base.limits import (
    MAX_DEATHS,
    MAX_DELAY_S,
    MAX_PRESENT,
    MAX_START_DEATHS,
    POOL_ABSENT_S,
    PROCESS_START_S,
    SILENCE_S,
)
from ...base.log import get_logger
from ...postprocess.fallback import Report
from ...postprocess.postprocessor import log_failure
from ..backend import NewRequest, PostprocessBackend
from . import messages
from .crash_backoff import CrashBackoff
from .current_step import Step
from .fork_server import ForkServer
from .process_handle import ProcessHandle
from .settings import PoolSettings
from .stream import PooledStream, StreamCallbacks

logger = get_logger(__name__)

# After this part of the deadline the process is quarantined: its other requests move.
QUARANTINE_PART = 0.25
# If a check is this late, the processes had no time to run either.
LATE_S = 1.0
# This many deaths in succession per process of the pool cost no wait.
FREE_DEATHS = 2


class PoolStats(msgspec.Struct):
    """The pool's counters.

    kills: processes killed because they exceeded a deadline. deaths: processes that died.
    moved_requests: restarts of a request in another process.
    """

    kills: int = 0
    deaths: int = 0
    moved_requests: int = 0


class PoolSupervisor(PostprocessBackend):
    """The processes, with the requests of each. Create and use it in one event loop.

    report: called for each parser that raised, exceeded the deadline or died.
    on_presence: called with True when a process serves, and with False when none has served
        again for `POOL_ABSENT_S`.
    """

    def __init__(
        self,
        settings: PoolSettings,
        report: Report = log_failure,
        on_presence: Callable[[bool], None] | None = None,
    ) -> None:
        self.settings = settings
        self._on_presence = on_presence
        self._is_present = False
        self.stats = PoolStats()
        self._report = report
        self._loop = asyncio.get_running_loop()
        self._numbers = itertools.count(1)
        self._keys = itertools.count(1)
        self._streams: dict[int, PooledStream] = {}
        self._fork_server = ForkServer(settings)
        self._backoff = CrashBackoff(FREE_DEATHS * settings.processes, MAX_DELAY_S)
        self._has_served = False
        self._served_at = self._loop.time()  # when a check last found a process that serves
        self._start_deaths = 0
        self._processes = [self._new_process() for _ in range(settings.processes)]
        self._quarantined: list[ProcessHandle] = []
        self._next_check: asyncio.TimerHandle | None = None
        self._check_due = 0.0
        self._schedule_check()

    @property
    @override
    def parsers_name(self) -> str:
        return self.settings.parsers_name

    @property
    def size(self) -> int:
        """Number of processes that should serve."""
        return self.settings.processes

    @property
    def depth(self) -> int:
        """Number of chunks that wait or are being processed."""
        # A list, because the thread that serves /metrics reads it as well.
        return sum(stream.backlog for stream in list(self._streams.values()))

    @property
    def requests(self) -> int:
        """Number of requests in the pool."""
        return len(self._streams)

    @property
    def pids(self) -> list[int]:
        """The pids of the serving processes, without those in quarantine."""
        return [process.pid for process in self._processes if process.ready]

    async def ready(self) -> None:
        """Wait until all processes serve. Raises `SetupError` if they cannot start."""
        await self._fork_server.ready
        while waiting := [process.started for process in self._processes if not process.ready]:
            if self._start_deaths >= MAX_START_DEATHS:
                raise SetupError(
                    f"{self._start_deaths} processes of --postprocess-workers ended before one "
                    "served; their log is above. Start with --postprocess-workers 0 to run without."
                )
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        self._set_presence(True)

    @override
    def start(self, new: NewRequest) -> PooledStream:
        callbacks = StreamCallbacks(new.wake, self._report, self._on_closed)
        key = next(self._keys)
        stream = PooledStream(
            key,
            new.params,
            list(new.token_ids),
            self.settings.delays,
            callbacks,
            measure=new.clock is not None,  # the process measures with a clock of its own
        )
        self._streams[key] = stream
        stream.move(self._least_busy())
        self._keep_checking()
        return stream

    def close(self) -> None:
        """End all processes and remove their files."""
        if self._next_check is not None:
            self._next_check.cancel()
        for process in (*self._processes, *self._quarantined):
            process.stop()
        self._fork_server.stop()

    def _least_busy(self) -> ProcessHandle:
        """Return a process that serves, if there is one: the next one may wait for its fork."""

        def key(process: ProcessHandle) -> tuple[bool, bool, int]:
            return not process.ready, process.is_delayed, len(process.streams)

        return min(self._processes, key=key)

    def _new_process(self, delay_s: float = 0.0) -> ProcessHandle:
        number = next(self._numbers)
        return ProcessHandle(self._fork_server, number, self._on_answer, self._on_death, delay_s)

    def _on_answer(self, process: ProcessHandle, answer: messages.RequestAnswer) -> None:
        self._has_served = True
        stream = self._streams.get(answer.key)
        if stream is not None and stream in process.streams:  # otherwise it has moved
            stream.receive(answer)

    def _on_closed(self, stream: PooledStream) -> None:
        self._streams.pop(stream.key, None)
        for process in self._quarantined[:]:
            if not process.streams:
                self._quarantined.remove(process)
                process.stop()

    # Deadlines.

    def _keep_checking(self) -> None:
        if self._next_check is None:
            self._served_at = self._loop.time()
            self._schedule_check()

    def _schedule_check(self) -> None:
        # Often enough that a quarantine is late by at most half its time.
        delay_s = self.settings.deadline_s * QUARANTINE_PART / 2
        self._check_due = self._loop.time() + delay_s
        self._next_check = self._loop.call_at(self._check_due, self._check_processes)

    def _check_processes(self) -> None:
        """Kill or quarantine processes that take too long."""
        self._next_check = None
        now = self._loop.time()
        if now - self._check_due < LATE_S:
            for process in (*self._processes, *self._quarantined):
                self._check(process, now)
            if not self.pids and now - self._served_at > POOL_ABSENT_S:
                self._set_presence(False)
                self._send_away()
        if self.pids:
            self._set_presence(True)
        if self.pids or now - self._check_due >= LATE_S:
            self._served_at = now
        if self._streams or not all(process.ready for process in self._processes):
            self._schedule_check()

    def _set_presence(self, is_present: bool) -> None:
        if is_present is not self._is_present:
            self._is_present = is_present
            if self._on_presence is not None:
                self._on_presence(is_present)

    def _send_away(self) -> None:
        """Fail the requests; Dynamo repeats them at other workers, and avoids this one."""
        waiting = [stream for stream in self._streams.values() if not stream.idle]
        if not waiting:
            return
        message = f"no process of --postprocess-workers has served for {POOL_ABSENT_S} s"
        logger.error("%s; its %d requests go to other workers", message, len(waiting))
        for stream in waiting:
            stream.fail(PoolAbsentError(message))

    def _check(self, process: ProcessHandle, now: float) -> None:
        deadline_s, step = self.settings.deadline_s, process.current_step()
        if step is None:
            silence_s = SILENCE_S if process.ready else PROCESS_START_S
            if process.silent_s(now) > silence_s:
                self._kill_silent(process, silence_s)
            return
        step_s = now - step.since
        if step_s > deadline_s * QUARANTINE_PART and process.is_stopped:
            self._kill_silent(process, step_s)
        elif step_s > deadline_s:
            self._kill(process, step)
        elif step_s > deadline_s * QUARANTINE_PART and process in self._processes:
            self._quarantine(process, step)

    def _quarantine(self, process: ProcessHandle, step: Step) -> None:
        """Leave the process with the step's request; move the others to a new process."""
        others = [stream for stream in process.streams if stream.key != step.key]
        self._replace(process)
        for stream in others:
            self._move(stream)
        if process.streams:
            self._quarantined.append(process)
        else:
            process.stop()

    def _kill(self, process: ProcessHandle, step: Step) -> None:
        """Kill a process whose step exceeded the deadline; blame the step's request."""
        self.stats.kills += 1
        deadline_s = self.settings.deadline_s
        logger.error(
            "a step of the %s parsers took longer than %g s; killing process %d",
            self.parsers_name,
            deadline_s,
            process.pid,
        )
        for stream in self._remove(process):
            if stream.key == step.key:
                reason = f"a step took longer than the deadline of {deadline_s:g} s"
                self._blame(stream, step, reason)
            else:
                self._move(stream)

    def _kill_silent(self, process: ProcessHandle, silence_s: float) -> None:
        """Kill a process that is stopped, or hangs outside of any step."""
        self.stats.kills += 1
        logger.error(
            "process %d of the pool has given no sign of life for %.1f s; killing it",
            process.pid,
            silence_s,
        )
        self._lose(process, f"did not answer for {silence_s:.1f} s")

    # Deaths.

    def _on_death(self, process: ProcessHandle) -> None:
        """Move the requests of a process that died; blame those that lost too many processes."""
        if process not in self._processes and process not in self._quarantined:
            return  # its death was noticed twice
        self.stats.deaths += 1
        logger.error(
            "process %d of the pool died; its %d requests continue in another",
            process.pid,
            len(process.streams),
        )
        self._lose(process, "died")
        self._keep_checking()

    def _lose(self, process: ProcessHandle, how: str) -> None:
        """Replace a lost process; blame the requests that lost too many.

        The request whose step was running gets the strike. Outside of any step, each request of
        the process gets one.
        """
        step = process.current_step()
        if not self._has_served:
            self._start_deaths += 1
        delay_s = self._backoff.count(self._loop.time())
        for stream in self._remove(process, delay_s):
            if step is None:
                stream.present += 1
                if stream.present >= MAX_PRESENT:
                    reason = f"{stream.present} processes {how} while they served it"
                    self._blame(stream, None, reason)
                    continue
            elif stream.key == step.key:
                stream.deaths += 1
                if stream.deaths >= MAX_DEATHS:
                    reason = f"{stream.deaths} processes {how} in its steps"
                    self._blame(stream, step, reason)
                    continue
            self._move(stream)

    def _remove(self, process: ProcessHandle, delay_s: float = 0.0) -> list[PooledStream]:
        """Stop `process`, replace it unless it is quarantined, and return its requests."""
        streams = list(process.streams)
        if process in self._processes:
            self._replace(process, delay_s)
        else:
            self._quarantined.remove(process)
        process.stop()
        return streams

    def _replace(self, process: ProcessHandle, delay_s: float = 0.0) -> None:
        self._processes[self._processes.index(process)] = self._new_process(delay_s)

    def _move(self, stream: PooledStream) -> None:
        self.stats.moved_requests += 1
        stream.move(self._least_busy())

    def _blame(self, stream: PooledStream, step: Step | None, reason: str) -> None:
        """Have the request continue without its parser, or fail.

        step: the running one; None if outside of any.
        It also fails if it has no parser any more: then the parser is not the cause.
        """
        chunks = None
        if step is not None:
            # The process had no time to report the chunks before the step.
            chunks = stream.processed = max(stream.processed, step.chunks)
        failure = ParserFailedError(
            self.parsers_name, stream.params.response_id, stream.position, reason
        )
        self._report(failure)
        if self.settings.on_error == "degrade" and stream.disable_parsers(chunks, reason):
            self._move(stream)
        else:
            stream.fail(failure)
