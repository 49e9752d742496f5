"""Ends early where a port is taken; Dynamo ends with a traceback, or goes on without its server."""

from __future__ import annotations

import os
import socket

from .errors import SetupError

SYSTEM_HOST, SYSTEM_PORT = "DYN_SYSTEM_HOST", "DYN_SYSTEM_PORT"
ANY_ADDRESS = "0.0.0.0"  # noqa: S104 - Dynamo's default


def check_port(named: str, host: str, port: int) -> None:
    """Raise `SetupError` unless a server can listen there. named: the flag or the variable."""
    try:
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as Dynamo's
            listener.bind((host, port))
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise SetupError(f"{named} {port} on {host}: {reason}; choose another.") from error


def check_system_port() -> None:
    """Raise `SetupError` unless a worker can listen at the port for its health and metrics."""
    port = os.environ.get(SYSTEM_PORT, "")
    if port.isascii() and port.isdecimal():  # a negative one switches it off
        check_port(SYSTEM_PORT, os.environ.get(SYSTEM_HOST) or ANY_ADDRESS, int(port))
