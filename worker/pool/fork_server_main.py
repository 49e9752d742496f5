"""The process that those of the pool are forked from: it has everything built, and one thread.

    python -m backedge.worker.pool.fork_server_main MODULE:FUNCTION CONTROL LIFELINE

MODULE:FUNCTION takes the arguments of `start` and returns the detokenizer and parser
factories. CONTROL is a socket: numbers of processes to fork come in, their pids go
out. LIFELINE is a pipe that nobody writes to: it closes when the main process ends,
however it ends, and then the kernel ends this one and all that were forked from it.
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
from typing import Any, NoReturn

import msgspec

from .messages import Forked, ForkServerStart, ProcessSettings
from .process import PoolProcess


def end_with(lifeline: int) -> None:
    """Have the kernel end this process when the pipe's other end is closed, whatever it is doing then.

    A signal that the kernel sends needs no thread of ours, and ends a parser that never comes back.
    """
    # The flags belong to the open file, which a fork shares: each process opens the pipe anew.
    own = os.open(f"/proc/self/fd/{lifeline}", os.O_RDONLY | os.O_NONBLOCK)
    fcntl.fcntl(own, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(own, fcntl.F_SETFL, fcntl.fcntl(own, fcntl.F_GETFL) | os.O_ASYNC)
    poll = select.poll()
    poll.register(own, 0)
    if poll.poll(0):  # it was closed before the signal was asked for
        os._exit(0)


def load(name: str) -> Callable[..., Any]:
    """Return the function that `module:function` names."""
    module, _, function = name.partition(":")
    loaded: Callable[..., Any] = getattr(importlib.import_module(module), function)
    return loaded


def main() -> None:
    """Build, then fork on demand until the control socket closes."""
    build = load(sys.argv[1])
    control = socket.socket(fileno=int(sys.argv[2]))
    lifeline = int(sys.argv[3])
    stream = control.makefile("rwb", buffering=0)
    start = msgspec.json.decode(stream.readline(), type=ForkServerStart)
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # Ctrl-C is for the main process, which lets requests finish
    # The main process may be killed; then nobody else would remove the sockets.
    signal.signal(signal.SIGIO, lambda *_: leave(start.settings.folder))
    end_with(lifeline)
    parts = build(**start.arguments)
    gc.collect()
    gc.freeze()  # the collector would write to every page that the processes share
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the main process watches them by itself
    stream.write(msgspec.json.encode(Forked(-1, 0)) + b"\n")
    while line := stream.readline():
        number = int(line)
        pid = os.fork()
        if not pid:
            control.close()
            serve(parts, start.settings, number, lifeline)
        stream.write(msgspec.json.encode(Forked(number, pid)) + b"\n")
    leave(start.settings.folder)


def serve(
    parts: tuple[Any, Any], settings: ProcessSettings, number: int, lifeline: int
) -> NoReturn:
    """Be process `number` of the pool."""
    signal.signal(signal.SIGIO, signal.SIG_DFL)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        end_with(lifeline)
        PoolProcess(*parts, settings, number).run()
    except BaseException:  # noqa: BLE001 - what is left of the template must not run on in its child
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(1)


def leave(folder: str) -> NoReturn:
    """End, and leave nothing behind."""
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)


if __name__ == "__main__":
    main()
