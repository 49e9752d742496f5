"""A real server of turns, and what may happen to it."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

import redis

from tests.machine import require
from tools.stack import LOOPBACK, free_port


class Server:
    """A server on a port of its own; it ends with the context."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        flags = ("--port", str(self.port), "--bind", LOOPBACK, "--save", "", "--dir", str(folder))
        self.process = subprocess.Popen(
            [require("redis-server"), *flags], stdout=subprocess.DEVNULL
        )
        self.client = redis.Redis(LOOPBACK, self.port)
        while not self.answers():
            assert self.process.poll() is None, "the server ended at its start"
            time.sleep(0.02)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def answers(self) -> bool:
        try:
            return bool(self.client.ping())
        except redis.ConnectionError:
            return False

    def rewrite(self, change: Callable[[bytes], bytes]) -> None:
        """Change all values."""
        for key in self.client.scan_iter():
            value = self.client.get(key)
            assert isinstance(value, bytes)
            self.client.set(key, change(value))

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def become_a_list(self) -> None:
        for key in self.client.scan_iter():
            self.client.delete(key)
            self.client.rpush(key, "x")

    def fill(self) -> None:
        self.client.config_set("maxmemory", 1)
