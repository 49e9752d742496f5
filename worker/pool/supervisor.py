"""The main process's side of the pool.

It assigns requests to processes, moves those that wait for a slow one, kills a process whose
step exceeds the deadline, and replaces processes that died.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable

from typing_extensions import override

from ...base.errors import ParserFailedError, PoolAbsentError, SetupError
from ...base.limits import (
    MAX_DEATHS,
    MAX_DELAY_S,
    MAX_START_DEATHS,
    POOL_ABSENT_S,
    PROCESS_START_S,
)
from ...base.log import get_logger
from ...engines.dynamo.metrics import PoolStats
from ...postprocess.fallback import Report
from ...postprocess.postprocessor import log_failure
from ...postprocess.settings import PostprocessSettings
from ..backend import NewRequest, PostprocessBackend
from . import messages
from .crash_backoff import CrashBackoff
from .current_step import Step
from .fork_server import ForkServer
from .process_handle import ProcessHandle
from .process_state import STOPPED_CHECKS
from .settings import PoolSettings
from .stream import PooledStream

logger = get_logger(__name__)

# How often the processes are checked: so that a kill is late by little, and never seldom.
CHECKS_PER_DEADLINE = 8
# After this part of the deadline, the requests that wait for a step move to a new process.
PATIENCE = 0.25
# The deadline is for the step's CPU time. Its time on the clock may be so many times that.
WAITS = 8
MAX_CHECK_S = 0.25
# If a check is this late, the processes had no time to run either.
LATE_S = 1.0
# This many deaths in succession per process of the pool cost no wait.
FREE_DEATHS = 2


class PoolSupervisor(PostprocessBackend):
    """The processes, with the requests of each. Create and use it in one event loop.

    settings: those of post-processing.
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
        self.settings: PostprocessSettings = settings.postprocess
        self._pool = settings
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
        self._served_at = self._loop.time()  # when a check last found a process that serves
        self._start_deaths = 0
        self._processes = [self._new_process() for _ in range(settings.processes)]
        self._slow: list[ProcessHandle] = []  # each with the one request whose step is long
        self._check_due = 0.0
        self._next_check: asyncio.TimerHandle
        self._schedule_check()

    @property
    @override
    def parsers_name(self) -> str:
        return self._pool.parsers_name

    @property
    def size(self) -> int:
        """Number of processes that should serve."""
        return self._pool.processes

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
        """The pids of the processes that take new requests."""
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
        key = next(self._keys)
        stream = PooledStream(key, new, self.settings.delays, self._report, self._on_closed)
        self._streams[key] = stream
        stream.move(self._least_busy())
        return stream

    def close(self) -> None:
        """End all processes and remove their files."""
        self._next_check.cancel()
        for process in (*self._processes, *self._slow):
            process.stop()
        self._fork_server.stop()

    def _least_busy(self) -> ProcessHandle:
        """Return a process that serves, if there is one: the next one may wait for its fork."""

        def key(process: ProcessHandle) -> tuple[bool, float, int]:
            return not process.ready, process.delay_s, len(process.keys)

        return min(self._processes, key=key)

    def _new_process(self, delay_s: float = 0.0) -> ProcessHandle:
        number = next(self._numbers)
        return ProcessHandle(self._fork_server, number, self._on_answer, self._on_death, delay_s)

    def _on_answer(self, process: ProcessHandle, answer: messages.RequestAnswer) -> None:
        if answer.key in process.keys:  # otherwise the request has moved
            self._streams[answer.key].receive(answer)

    def _on_closed(self, stream: PooledStream) -> None:
        self._streams.pop(stream.key, None)
        for process in [process for process in self._slow if not process.keys]:
            self._slow.remove(process)
            process.stop()

    # Checks.

    def _schedule_check(self) -> None:
        delay_s = min(self.settings.deadline_s / CHECKS_PER_DEADLINE, MAX_CHECK_S)
        self._check_due = self._loop.time() + delay_s
        self._next_check = self._loop.call_at(self._check_due, self._check_all)

    def _check_all(self) -> None:
        """Kill what takes too long; tell whether the pool serves."""
        now = self._loop.time()
        is_late = now - self._check_due >= LATE_S
        if not is_late:
            self._fork_server.check(now)
            for process in (*self._processes, *self._slow):
                self._check(process, now)
        if self.pids or is_late:
            self._served_at = now
        if self.pids:
            self._set_presence(True)
        elif now - self._served_at > POOL_ABSENT_S:
            self._set_presence(False)
            self._send_away()
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
        """Kill a process that is stopped, or whose step or start takes too long."""
        deadline_s, step = self.settings.deadline_s, process.current_step()
        step_s = 0.0 if step is None else now - step.since
        # On a busy machine a step may wait for its turn.
        cpu_s = 0.0 if step is None else process.cpu_s(step)
        if process.count_stopped() >= STOPPED_CHECKS:
            self._kill(process, step, "it was stopped")
        elif cpu_s > deadline_s or step_s > deadline_s * WAITS:
            reason = f"a step took longer than the deadline of {deadline_s:g} s"
            self._kill(process, step, reason, deaths=MAX_DEATHS)
        elif step is not None and step_s > deadline_s * PATIENCE and process in self._processes:
            self._leave_alone(process, step)
        elif not process.ready and now - process.forked_at > PROCESS_START_S:
            self._kill(process, step, f"it did not serve within {PROCESS_START_S} s")

    def _leave_alone(self, process: ProcessHandle, step: Step) -> None:
        """Leave a slow process its step's request; the others continue in a new process."""
        self._processes[self._processes.index(process)] = self._new_process()
        for key in process.keys - {step.key}:
            self._move(self._streams[key])
        if not process.keys:
            process.stop()
            return
        self._slow.append(process)
        own = self._streams[step.key]
        own.quick = step.chunks if own.quick is None else own.quick

    def _move(self, stream: PooledStream) -> None:
        self.stats.moved_requests += 1
        stream.move(self._least_busy())

    def _kill(
        self, process: ProcessHandle, step: Step | None, reason: str, *, deaths: int = 1
    ) -> None:
        self.stats.kills += 1
        logger.error(
            "killing process %d of the %s parsers: %s", process.pid, self.parsers_name, reason
        )
        self._lose(process, step, reason, deaths=deaths)

    def _on_death(self, process: ProcessHandle) -> None:
        """Replace a process that died, sent an invalid answer, or could not be forked."""
        if process not in (*self._processes, *self._slow):
            return  # its death was noticed twice
        if process.pid:
            self.stats.deaths += 1
            logger.error(
                "process %d of the pool died; its %d requests continue in another",
                process.pid,
                len(process.keys),
            )
        self._lose(process, process.current_step(), "it died")

    def _lose(
        self, process: ProcessHandle, step: Step | None, reason: str, *, deaths: int = 1
    ) -> None:
        """Replace a process and move its requests, less those that may have been the cause.

        The death counts for the request of the running step; outside of any step, for each that
        the process served. deaths: as many it counts.
        """
        delay_s = self._backoff.count(self._loop.time()) if deaths < MAX_DEATHS else 0.0
        has_served, streams = process.ready, [self._streams[key] for key in process.keys]
        self._start_deaths += not has_served
        if process in self._slow:
            self._slow.remove(process)
        else:
            self._processes[self._processes.index(process)] = self._new_process(delay_s)
        process.stop()
        told = reason if deaths == MAX_DEATHS else f"{MAX_DEATHS} of its processes died"
        for stream in streams:
            if has_served and (step is None or step.key == stream.key):
                stream.deaths += deaths
                # The process had no time to report the chunks before the step.
                stream.processed = max(stream.processed, 0 if step is None else step.chunks)
            if stream.deaths < MAX_DEATHS or self._leave_parsers(stream, told):
                self._move(stream)

    def _leave_parsers(self, stream: PooledStream, reason: str) -> bool:
        """Have a request continue without its parsers; if that may not help, it fails."""
        failure = ParserFailedError(
            self.parsers_name, stream.params.response_id, stream.position, reason
        )
        self._report(failure)
        goes_on = self.settings.on_error == "degrade" and stream.leave_parsers()
        if not goes_on:
            stream.fail(failure)
        return goes_on
