"""One process of the pool, seen from the main process."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING

import zmq

from . import messages

if TYPE_CHECKING:
    from .fork_server import ForkServer
    from .stream import PooledStream

ProcessMessage = messages.Progress | messages.Result | messages.Failure


class ProcessHandle:
    """A process and the requests that it works on.

    What is sent in one turn of the event loop travels as one message.

    answered: told of everything the process says. died: called if it ends by itself.
    started: done when the process serves.
    """

    def __init__(
        self,
        fork_server: ForkServer,
        number: int,
        answered: Callable[[ProcessHandle, ProcessMessage], None],
        died: Callable[[ProcessHandle], None],
    ) -> None:
        self.streams: set[PooledStream] = set()
        self.ready = False
        self.pid = 0
        self._fork_server = fork_server
        self._number = number
        self._loop = asyncio.get_running_loop()
        self.started: asyncio.Future[None] = self._loop.create_future()
        self._answered = answered
        self._died = died
        self._pidfd = -1
        self._outbox: list[messages.Request] = []
        self._flushes = False
        self._monitor = messages.StepMonitor(messages.monitor_path(fork_server.folder, number))
        self._socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.PAIR)
        self._socket.set_hwm(0)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.bind(f"ipc://{messages.socket_path(fork_server.folder, number)}")
        self._fd: int = self._socket.getsockopt(zmq.FD)
        self._loop.add_reader(self._fd, self._receive)
        fork_server.fork(number, self._forked)

    def current_step(self) -> messages.Step | None:
        """Return the step that the process is working on, if any."""
        return self._monitor.read()

    def send(self, request: messages.Request) -> None:
        """Send `request` at the end of this turn of the event loop, or as soon as the process serves."""
        self._outbox.append(request)
        if not self._flushes and self.ready:
            self._flushes = True
            self._loop.call_soon(self._flush)

    def stop(self) -> None:
        """End the process."""
        self.ready = False
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
        messages.socket_path(self._fork_server.folder, self._number).unlink(missing_ok=True)
        messages.monitor_path(self._fork_server.folder, self._number).unlink(missing_ok=True)

    def _forked(self, pid: int) -> None:
        self.pid = pid
        try:
            self._pidfd = os.pidfd_open(pid)
        except ProcessLookupError:
            self._loop.call_soon(self._died, self)
            return
        self._loop.add_reader(self._pidfd, self._ended)

    def _ended(self) -> None:
        self._died(self)

    def _flush(self) -> None:
        self._flushes = False
        if self._outbox and not self._socket.closed:
            outbox, self._outbox = self._outbox, []
            self._socket.send(messages.encode(outbox), zmq.NOBLOCK)
            # The socket tells of news by an edge, and a send may have swallowed it.
            self._receive()

    def _receive(self) -> None:
        while not self._socket.closed:
            try:
                message = self._socket.recv(zmq.NOBLOCK)
            except zmq.Again:
                return
            for answer in messages.decode_answers(message):
                if isinstance(answer, messages.Ready):
                    self._serves()
                else:
                    self._answered(self, answer)

    def _serves(self) -> None:
        self.ready = True
        if not self.started.done():
            self.started.set_result(None)
        self._flush()
