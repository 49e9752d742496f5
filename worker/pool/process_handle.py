"""The main process's side of a pool process: its socket, its pid, its requests.

All messages of one turn of the event loop are sent as one.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable
from math import inf

import zmq

from ...base.errors import ProtocolError
from ...base.log import get_logger
from . import messages
from .current_step import Step, StepMonitor, monitor_path
from .fork_server import ForkServer
from .process_state import cpu_clock, is_stopped

logger = get_logger(__name__)


class ProcessHandle:
    """Forks process `number`, sends it requests, and kills it.

    keys: of the requests in the process. ready, started: the process serves, and can be killed.
    delay_s: how long to wait before the fork.
    forked_at: in seconds of the event loop's clock; infinite before the fork.
    on_answer: called with each answer; raises `ProtocolError` for an impossible one.
    on_death: called if the process ends by itself or sends an invalid answer.
    """

    def __init__(
        self,
        fork_server: ForkServer,
        number: int,
        on_answer: Callable[[ProcessHandle, messages.RequestAnswer], None],
        on_death: Callable[[ProcessHandle], None],
        delay_s: float = 0.0,
    ) -> None:
        self.keys: set[int] = set()
        self.ready = False
        self.pid = 0
        self.delay_s = delay_s
        self.forked_at = inf
        self._fork_server = fork_server
        self._number = number
        self._is_up = False  # the process has said so, perhaps before the fork server its pid
        self._loop = asyncio.get_running_loop()
        self.started: asyncio.Future[None] = self._loop.create_future()
        self._on_answer = on_answer
        self._on_death = on_death
        self._pidfd = -1
        self._stopped_looks = 0
        self._looked_at = 0.0, 0.0  # when the step began that was seen last, and its CPU time
        self._outbox: list[messages.Request] = []
        self._flush_is_scheduled = False
        self._socket_path = messages.socket_path(fork_server.folder, number)
        self._monitor_path = monitor_path(fork_server.folder, number)
        self._monitor = StepMonitor(self._monitor_path)
        self._socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.PAIR)
        self._socket.set_hwm(0)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.bind(f"ipc://{self._socket_path}")
        self._fd: int = self._socket.getsockopt(zmq.FD)
        self._loop.add_reader(self._fd, self._receive)
        # A delay keeps processes that die at once from being forked in an endless loop.
        self._delay: asyncio.TimerHandle | None = None
        if delay_s:
            self._delay = self._loop.call_later(delay_s, self._fork)
        else:
            self._fork()

    def current_step(self) -> Step | None:
        """Return the step that the process is working on, or None."""
        return self._monitor.read()

    def cpu_s(self, step: Step) -> float:
        """Return how long the process has computed since this was called first in its step."""
        try:
            now = time.clock_gettime(cpu_clock(self.pid))
        except OSError:  # it has ended
            return 0.0
        if self._looked_at[0] != step.since:
            self._looked_at = step.since, now
        return now - self._looked_at[1]

    def count_stopped(self) -> int:
        """Look whether something has stopped the process; return in how many looks in a row."""
        self._stopped_looks = self._stopped_looks + 1 if is_stopped(self.pid) else 0
        return self._stopped_looks

    def send(self, request: messages.Request) -> None:
        """Send `request` at the end of this event-loop turn, or once the process serves."""
        self._outbox.append(request)
        if not self._flush_is_scheduled and self.ready:
            self._flush_is_scheduled = True
            self._loop.call_soon(self._flush)

    def stop(self) -> None:
        """Kill the process and remove its files."""
        self.ready = False
        if self._delay is not None:
            self._delay.cancel()
        self._fork_server.cancel(self._number)
        if not self.started.done():
            self.started.cancel()
        if self._pidfd >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = -1
        if not self._socket.closed:
            self._loop.remove_reader(self._fd)
            self._socket.close()
            self._monitor.close()
        self._socket_path.unlink(missing_ok=True)
        self._monitor_path.unlink(missing_ok=True)

    def _fork(self) -> None:
        self._fork_server.fork(self._number, self._on_forked)

    def _on_forked(self, pid: int) -> None:
        if not pid:
            logger.error("a process of --postprocess-workers cannot be forked; the log is above")
            self._loop.call_soon(self._on_death, self)
            return
        self.pid = pid
        self.forked_at = self._loop.time()
        try:
            self._pidfd = os.pidfd_open(pid)
        except OSError as error:
            # It has already ended, or we are out of file descriptors to watch it with.
            if not isinstance(error, ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            self._loop.call_soon(self._on_death, self)
            return
        self._loop.add_reader(self._pidfd, self._on_death, self)
        self._serve()

    def _flush(self) -> None:
        self._flush_is_scheduled = False
        if self._outbox and not self._socket.closed:
            outbox, self._outbox = self._outbox, []
            with contextlib.suppress(zmq.Again):  # the process has just died
                self._socket.send(messages.encode(outbox), zmq.NOBLOCK)
            # ZMQ's descriptor is edge-triggered, and a send may have consumed the edge.
            self._receive()

    def _receive(self) -> None:
        while not self._socket.closed:
            try:
                message = self._socket.recv(zmq.NOBLOCK)
            except zmq.Again:
                return
            try:
                for answer in messages.decode_answers(message):
                    if isinstance(answer, messages.Ready):
                        self._is_up = True
                        self._serve()
                    else:
                        self._on_answer(self, answer)
            except ProtocolError as error:
                told = "process %d of the pool sent an invalid answer: %s"
                logger.error(told, self.pid, error)  # noqa: TRY400 - the error's text suffices
                self._on_death(self)
                return

    def _serve(self) -> None:
        """Take requests, once the process is up and its pid is known."""
        if not self._is_up or self._pidfd < 0:
            return
        self.ready = True
        if not self.started.done():
            self.started.set_result(None)
        self._flush()
