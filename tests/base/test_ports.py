"""Ports that another process listens at."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
from backedge.base.errors import SetupError
from backedge.base.ports import check_port, check_system_port

FREE = ["", "-1", "0"]
HOSTS = ["127.0.0.1", "0.0.0.0"]  # noqa: S104 - Dynamo's default


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as other:
        yield other.getsockname()[1]


@pytest.mark.parametrize("host", HOSTS)
def test_a_taken_port_is_named(host: str, taken: int) -> None:
    with pytest.raises(SetupError, match=f"--port {taken} on {host}: .*already in use; choose"):
        check_port("--port", host, taken)


@pytest.mark.parametrize("host", ["", *HOSTS])
def test_a_workers_port_is_that_of_its_variables(
    host: str, taken: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DYN_SYSTEM_HOST", host)
    monkeypatch.setenv("DYN_SYSTEM_PORT", str(taken))
    with pytest.raises(SetupError, match=f"DYN_SYSTEM_PORT {taken}"):
        check_system_port()
    monkeypatch.setenv("DYN_SYSTEM_PORT", "99999")
    with pytest.raises(SetupError, match="99999"):
        check_system_port()


@pytest.mark.parametrize("port", FREE)
def test_without_a_port_nothing_is_checked(port: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DYN_SYSTEM_PORT", port)
    check_system_port()
