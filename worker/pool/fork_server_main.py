"""The program from which the pool's processes are forked: everything built, one thread.

    python -m backedge.worker.pool.fork_server_main MODULE:FUNCTION CONTROL LIFELINE

MODULE:FUNCTION returns the detokenizer and parser factories; its arguments come in the
first line, a `ForkServerStart`. CONTROL is a socket: numbers of processes to fork come in,
their pids go out. LIFELINE is a pipe that nobody writes to: it closes when the main process
ends, however it ends, and then the kernel ends this process and all that it has forked.
"""

from __future__ import annotations

import fcntl
import gc
import importlib
import os
import select
import shutil
import signal
import socket
import sys
from collections.abc import Callable
from typing import NoReturn

import msgspec

from ...parsers.base import ParserFactory
from ...tokenization.detokenizer import DetokenizerFactory
from .messages import Forked, ForkServerStart, ProcessSettings
from .process import PoolProcess

Parts = tuple[DetokenizerFactory, ParserFactory]
"""What a process of the pool post-processes with."""


def end_with(lifeline: int) -> None:
    """Have the kernel end this process when the other end of the pipe closes.

    A signal from the kernel needs no thread, and ends a parser that loops as well.
    """
    # The flags belong to the open file, which forked processes share: each opens it anew.
    own = os.open(f"/proc/self/fd/{lifeline}", os.O_RDONLY | os.O_NONBLOCK)
    fcntl.fcntl(own, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(own, fcntl.F_SETFL, fcntl.fcntl(own, fcntl.F_GETFL) | os.O_ASYNC)
    poll = select.poll()
    poll.register(own, 0)
    if poll.poll(0):  # it closed before the signal was requested
        os._exit(0)


def load_function(name: str) -> Callable[..., Parts]:
    """Return the function that "module:function" names."""
    module, _, function = name.partition(":")
    loaded: Callable[..., Parts] = getattr(importlib.import_module(module), function)
    return loaded


def main() -> None:
    """Build, then fork on demand until the control socket closes."""
    build = load_function(sys.argv[1])
    control = socket.socket(fileno=int(sys.argv[2]))
    lifeline = int(sys.argv[3])
    stream = control.makefile("rwb", buffering=0)
    start = msgspec.json.decode(stream.readline(), type=ForkServerStart)
    # Ctrl-C is for the main process, which lets requests finish.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # If the main process is killed, only this one is left to remove the sockets.
    signal.signal(signal.SIGIO, lambda *_: remove_and_exit(start.settings.folder))
    end_with(lifeline)
    parts = build(**start.arguments)
    gc.collect()
    gc.freeze()  # the collector would write to every page that the processes share
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the main process watches the processes
    stream.write(msgspec.json.encode(Forked(-1, 0)) + b"\n")
    while line := stream.readline():
        number = int(line)
        pid = fork()
        if pid < 0:
            stream.write(msgspec.json.encode(Forked(number, 0)) + b"\n")
            continue
        if not pid:
            # Both, or the main process does not see this server's end while its processes live.
            stream.close()
            control.close()
            serve(parts, start.settings, number, lifeline)
        stream.write(msgspec.json.encode(Forked(number, pid)) + b"\n")
    remove_and_exit(start.settings.folder)


def fork() -> int:
    """Return as `os.fork`; -1 if the machine has no process or no memory for one now."""
    try:
        return os.fork()
    except OSError as error:
        sys.stderr.write(f"a process of the pool cannot be forked: {error}\n")
        return -1


def serve(parts: Parts, settings: ProcessSettings, number: int, lifeline: int) -> NoReturn:
    """Be process `number` of the pool."""
    signal.signal(signal.SIGIO, signal.SIG_DFL)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        end_with(lifeline)
        PoolProcess(*parts, settings, number).run()
    except BaseException:  # noqa: BLE001 - a forked process must not go on as the fork server
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(1)


def remove_and_exit(folder: str) -> NoReturn:
    """Remove the folder of the sockets and end."""
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)


if __name__ == "__main__":
    main()
