"""The program that forks the pool's processes: everything is built, with a single thread.

    python -m backedge.worker.pool.fork_server_main MODULE:FUNCTION CONTROL LIFELINE

MODULE:FUNCTION returns the detokenizer and parser factories; its arguments are in the first
line, a `ForkServerStart`. CONTROL is a socket that takes numbers of processes to fork and
returns their pids. LIFELINE is a pipe without data: it closes when the main process ends, for any
reason, and then the kernel ends this process and all that it forked.
"""

from __future__ import annotations

import fcntl
import gc
import os
import pkgutil
import select
import shutil
import signal
import socket
import sys
from collections.abc import Callable
from typing import NoReturn

import msgspec

from ...base.log import bound_output
from ...parsers.base import ParserFactory
from ...tokenization.detokenizer import DetokenizerFactory
from .current_step import StepMonitor, monitor_path
from .messages import Forked, ForkServerStart
from .process import PoolProcess, open_socket

Parts = tuple[DetokenizerFactory, ParserFactory]
"""The detokenizer and parser factories of a pool process."""


def end_with(lifeline: int) -> None:
    """Have the kernel end this process when the pipe's other end closes.

    The kernel's signal needs no thread and also ends a parser that loops.
    """
    # The flags belong to the open file, which forks share, so each process opens it anew.
    own = os.open(f"/proc/self/fd/{lifeline}", os.O_RDONLY | os.O_NONBLOCK)
    fcntl.fcntl(own, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(own, fcntl.F_SETFL, fcntl.fcntl(own, fcntl.F_GETFL) | os.O_ASYNC)
    poll = select.poll()
    poll.register(own, 0)
    if poll.poll(0):  # the pipe closed before the signal was requested
        os._exit(0)


def main() -> None:
    """Build the factories, then fork on demand until the control socket closes."""
    build: Callable[..., Parts] = pkgutil.resolve_name(sys.argv[1])
    control = socket.socket(fileno=int(sys.argv[2]))
    lifeline = int(sys.argv[3])
    stream = control.makefile("rwb", buffering=0)
    start = msgspec.json.decode(stream.readline(), type=ForkServerStart)
    # Only the main process handles Ctrl-C: it lets requests finish.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # If the main process is killed, this process removes the sockets.
    signal.signal(signal.SIGIO, lambda *_: remove_and_exit(start.folder))
    end_with(lifeline)
    parts = build(**start.arguments)
    bound_output()
    gc.collect()
    gc.freeze()  # otherwise a collection would copy every page that the processes share
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the main process watches the processes
    stream.write(msgspec.json.encode(Forked(-1, 0)) + b"\n")
    while line := stream.readline():
        number = int(line)
        try:
            pid = os.fork()
        except OSError as error:  # the machine is out of processes or memory
            sys.stderr.write(f"a process of the pool cannot be forked: {error}\n")
            stream.write(msgspec.json.encode(Forked(number, 0)) + b"\n")
            continue
        if not pid:
            # Close both, or the main process cannot see this server's end while its processes live.
            stream.close()
            control.close()
            serve(parts, start, number, lifeline)
        stream.write(msgspec.json.encode(Forked(number, pid)) + b"\n")
    remove_and_exit(start.folder)


def serve(parts: Parts, start: ForkServerStart, number: int, lifeline: int) -> NoReturn:
    """Be process `number` of the pool."""
    signal.signal(signal.SIGIO, signal.SIG_DFL)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        end_with(lifeline)
        monitor = StepMonitor(monitor_path(start.folder, number))
        socket_ = open_socket(start.folder, number)
        PoolProcess(*parts, start.settings, monitor, socket_).run()
    except BaseException:  # noqa: BLE001 - a fork must never continue as the fork server
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(1)


def remove_and_exit(folder: str) -> NoReturn:
    """Remove the folder of the sockets and exit."""
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)


if __name__ == "__main__":
    main()
