"""The main process's side of the fork server: starts it, restarts it, has it fork.

The server itself is the program `fork_server_main`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from math import inf

import msgspec

from ...base.errors import SetupError
from ...base.limits import (
    FORK_SERVER_RESTART_S,
    FORK_SERVER_START_S,
    FORK_TIMEOUT_S,
    MAX_FORK_SERVER_LINE,
)
from ...base.log import get_logger
from .crash_backoff import CrashBackoff
from .messages import Forked, ForkServerStart
from .process_state import STOPPED_CHECKS, is_stopped
from .settings import PoolSettings

logger = get_logger(__name__)

FREE_RESTARTS = 1
MAX_RESTART_DELAY_S = 30.0
STOP_TIMEOUT_S = 5.0
# How long the event loop waits for the server's exit after its socket has closed.
END_TIMEOUT_S = 0.2
PROGRAM = "backedge.worker.pool.fork_server_main"


class ForkServer:
    """Runs the fork server and restarts it when it ends.

    folder: private to this user, for sockets and step monitors.
    ready: done when the server can fork; fails with `SetupError` if the first server ends early.
    """

    def __init__(self, settings: PoolSettings) -> None:
        self._settings = settings
        self._loop = asyncio.get_running_loop()
        self.folder = tempfile.mkdtemp(prefix="backedge-")  # with mode 0700
        self.ready: asyncio.Future[None] = self._loop.create_future()
        # This pipe carries no data. It closes when this process ends; the kernel then ends the
        # fork server and all processes that it forked.
        self._lifeline, self._own_end = os.pipe()
        self._wanted: dict[int, Callable[[int], None]] = {}
        self._backoff = CrashBackoff(FREE_RESTARTS, MAX_RESTART_DELAY_S)
        self._is_ready = False
        self._restart: asyncio.TimerHandle | None = None
        self._deadline = inf  # of the server's current task
        self._stopped_looks = 0
        self._start()

    def fork(self, number: int, on_forked: Callable[[int], None]) -> None:
        """Fork process `number` as soon as possible; `on_forked` gets its pid.

        That is 0 if the machine is out of processes or memory.
        """
        self._wanted[number] = on_forked
        if self._is_ready:
            self._request_fork(number)
            self._watch()

    def cancel(self, number: int) -> None:
        """Cancel the fork of process `number` if it has not happened yet."""
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
        start = ForkServerStart(self.folder, settings.postprocess, settings.arguments)
        self._control.setblocking(False)
        self._send(msgspec.json.encode(start) + b"\n")
        self._buffer = b""
        self._loop.add_reader(self._control.fileno(), self._read)
        self._watch()

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
        try:
            for line in lines:
                self._take_answer(msgspec.json.decode(line, type=Forked))
        except msgspec.DecodeError as error:
            self._give_up(f"sent an invalid answer ({error})")
        if len(self._buffer) > MAX_FORK_SERVER_LINE:
            self._give_up(f"sent a line of more than {MAX_FORK_SERVER_LINE} bytes")

    def _take_answer(self, answer: Forked) -> None:
        if answer.number < 0:
            self._on_ready()
        elif (on_forked := self._wanted.pop(answer.number, None)) is not None:
            on_forked(answer.pid)
        elif answer.pid > 0:
            os.kill(answer.pid, signal.SIGKILL)  # cancelled in the meantime
        self._watch()

    def _on_ready(self) -> None:
        self._is_ready = True
        if not self.ready.done():
            self.ready.set_result(None)
        for number in self._wanted:
            self._request_fork(number)

    def _request_fork(self, number: int) -> None:
        self._send(b"%d\n" % number)

    def _send(self, line: bytes) -> None:
        # The reader notices a server that has ended, the deadline one that does not read; the
        # next server gets all requests again.
        with contextlib.suppress(OSError):
            self._control.send(line)

    def _watch(self) -> None:
        """Restart the deadline of the server's current task."""
        limit_s: float = FORK_TIMEOUT_S if self._wanted else inf
        if not self._is_ready:
            limit_s = FORK_SERVER_RESTART_S if self.ready.done() else FORK_SERVER_START_S
        self._deadline = self._loop.time() + limit_s

    def check(self, now: float) -> None:
        """Kill a server that is late, or that something has stopped."""
        self._stopped_looks = self._stopped_looks + 1 if is_stopped(self._process.pid) else 0
        if self._stopped_looks == STOPPED_CHECKS:
            self._give_up("was stopped")
        elif now > self._deadline:
            self._deadline = inf
            self._give_up("did not fork in time" if self._is_ready else "was not ready in time")

    def _give_up(self, reason: str) -> None:
        """Kill a server that does not work; its end is handled like any other."""
        logger.error("the fork server of --postprocess-workers %s; killing it", reason)
        self._process.kill()

    def _on_end(self) -> None:
        self._hang_up()
        status = self._end_process()
        message = (
            f"the fork server of --postprocess-workers ended with status {status}; its log is above"
        )
        logger.error("%s", message)
        if not self.ready.done():
            shutil.rmtree(self.folder, ignore_errors=True)
            self.ready.set_exception(
                SetupError(f"{message}. Start with --postprocess-workers 0 to run without it.")
            )
            return
        # The processes that the server forked keep running.
        self._is_ready = False
        self._start_later()

    def _start_later(self) -> None:
        delay_s = self._backoff.count(self._loop.time())
        self._restart = self._loop.call_later(delay_s, self._start_again)

    def _start_again(self) -> None:
        try:
            self._start()
        except OSError as error:
            message = "the fork server of --postprocess-workers cannot be started: %s"
            logger.error(message, error)  # noqa: TRY400 - the error's text suffices
            self._control.close()
            self._start_later()

    def _end_process(self) -> int:
        """Kill the server if it still runs; return its exit status."""
        if self._process.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                return self._process.wait(END_TIMEOUT_S)
            self._process.kill()
        return self._process.wait(STOP_TIMEOUT_S)

    def _hang_up(self) -> None:
        self._deadline = inf
        if self._control.fileno() >= 0:
            self._loop.remove_reader(self._control.fileno())
            self._control.close()
