"""The fork server, as the main process sees it: starts it, restarts it, and has it fork.

The server itself is `fork_server_main`, a program of its own.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable

import msgspec

from ...parsers.errors import SetupError
from .messages import Forked, ForkServerStart, ProcessSettings
from .settings import PoolSettings

logger = logging.getLogger(__name__)

MAX_RESTART_DELAY_S = 30.0
STOP_TIMEOUT_S = 5.0
PROGRAM = "backedge.worker.pool.fork_server_main"


class ForkServer:
    """Runs the fork server, and starts it again if it ends.

    folder: private to this user, for sockets and step monitors.
    ready: done when the server can fork; fails with `SetupError` if the first one ends before.
    """

    def __init__(self, settings: PoolSettings) -> None:
        self._settings = settings
        self._loop = asyncio.get_running_loop()
        self.folder = tempfile.mkdtemp(prefix="backedge-")  # with mode 0700
        self.ready: asyncio.Future[None] = self._loop.create_future()
        # Nobody writes to this pipe. It closes when this process ends, and the kernel then
        # ends the fork server and all that it has forked.
        self._lifeline, self._own_end = os.pipe()
        self._wanted: dict[int, Callable[[int], None]] = {}
        self._delay_s = 1.0
        self._is_ready = False
        self._restart: asyncio.TimerHandle | None = None
        self._start()

    def fork(self, number: int, on_forked: Callable[[int], None]) -> None:
        """Have process `number` forked as soon as possible; `on_forked` gets its pid."""
        self._wanted[number] = on_forked
        if self._is_ready:
            self._request_fork(number)

    def cancel(self, number: int) -> None:
        """Forget process `number` if it has not been forked yet."""
        self._wanted.pop(number, None)

    def stop(self) -> None:
        """Kill the server and remove the folder."""
        if self._restart is not None:
            self._restart.cancel()
        self._hang_up()
        self._process.kill()
        self._process.wait(STOP_TIMEOUT_S)
        for end in (self._lifeline, self._own_end):
            os.close(end)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _start(self) -> None:
        self._restart = None
        self._control, theirs = socket.socketpair()
        settings = self._settings
        with theirs:
            fds = theirs.fileno(), self._lifeline
            self._process = subprocess.Popen(
                [sys.executable, "-m", PROGRAM, settings.build, *map(str, fds)],
                pass_fds=fds,
                stdin=subprocess.DEVNULL,
                # Threads do not survive a fork, so libraries must not start any.
                env={**os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"},
            )
        process = ProcessSettings(self.folder, settings.delays, settings.on_error)
        start = ForkServerStart(process, settings.arguments)
        self._control.setblocking(False)
        self._control.send(msgspec.json.encode(start) + b"\n")
        self._buffer = b""
        self._loop.add_reader(self._control.fileno(), self._read)

    def _read(self) -> None:
        try:
            received = self._control.recv(4096)
        except BlockingIOError:
            return
        except OSError:
            received = b""
        if not received:
            self._on_end()
            return
        *lines, self._buffer = (self._buffer + received).split(b"\n")
        for line in lines:
            answer = msgspec.json.decode(line, type=Forked)
            if answer.number < 0:
                self._on_ready()
            elif (on_forked := self._wanted.pop(answer.number, None)) is not None:
                on_forked(answer.pid)
            else:
                os.kill(answer.pid, signal.SIGKILL)  # cancelled meanwhile

    def _on_ready(self) -> None:
        self._is_ready = True
        self._delay_s = 1.0
        if not self.ready.done():
            self.ready.set_result(None)
        for number in self._wanted:
            self._request_fork(number)

    def _request_fork(self, number: int) -> None:
        self._control.send(b"%d\n" % number)

    def _on_end(self) -> None:
        self._hang_up()
        status = self._process.wait(STOP_TIMEOUT_S)
        message = (
            f"the fork server of --postprocess-workers ended with status {status}; its log is above"
        )
        logger.error("%s", message)
        if not self.ready.done():
            shutil.rmtree(self.folder, ignore_errors=True)
            self.ready.set_exception(
                SetupError(f"{message}. Start with --postprocess-workers 0 to do without.")
            )
            return
        # The processes that it has forked keep running.
        self._restart = self._loop.call_later(0.0 if self._is_ready else self._delay_s, self._start)
        self._delay_s = min(2 * self._delay_s, MAX_RESTART_DELAY_S)
        self._is_ready = False

    def _hang_up(self) -> None:
        if self._control.fileno() >= 0:
            self._loop.remove_reader(self._control.fileno())
            self._control.close()
