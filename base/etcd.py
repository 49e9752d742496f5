"""Ends early where no etcd answers; Dynamo would wait for minutes, and end with a traceback."""

from __future__ import annotations

import os
import socket
import time
from functools import partial
from urllib.parse import urlsplit

from . import limits
from .errors import SetupError
from .time_limit import call_within

VARIABLE, DEFAULT_ETCD = "ETCD_ENDPOINTS", "http://localhost:2379"
PORT = 2379
PAUSE_S = 0.2


def check_etcd(backend: str) -> None:
    """Raise `SetupError` if workers are found through etcd and none answers within `ETCD_S`.

    backend: the value of --discovery-backend.
    """
    if backend != "etcd":
        return
    places = os.environ.get(VARIABLE) or DEFAULT_ETCD
    deadline = time.monotonic() + limits.ETCD_S
    while not any(_listens(place, deadline) for place in places.split(",")):
        if time.monotonic() >= deadline:
            raise SetupError(
                f"{VARIABLE} {places}: no etcd answers there, through which workers and frontends "
                "find each other; start it, set the variable, or use --discovery-backend file."
            )
        time.sleep(PAUSE_S)


def _listens(place: str, deadline: float) -> bool:
    """Whether a server accepts connections. place: a URL or HOST:PORT."""
    try:
        found = urlsplit(place if "://" in place else f"http://{place}")
        address = found.hostname or "", found.port or PORT
        left_s = max(deadline - time.monotonic(), PAUSE_S)
        call_within(left_s, partial(_connect, address, left_s))
    except (OSError, ValueError):
        return False
    return True


def _connect(address: tuple[str, int], timeout_s: float) -> None:
    # The timeout does not bound the resolution of the name.
    socket.create_connection(address, timeout_s).close()
