"""`make run`: what it says of a port that it cannot have."""

from __future__ import annotations

import socket
import sys

import pytest

from tools import run


@pytest.mark.parametrize("port", ["99999", "-1", "0", "8000x", "٨٠٠٠", ""])
def test_what_is_no_port_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], port: str
) -> None:
    monkeypatch.setattr(sys, "argv", ["run", f"--port={port}"])
    with pytest.raises(SystemExit):
        run.main()
    assert "is not a port; PORT must be 1 to 65535" in capsys.readouterr().err


def test_another_servers_port_is_refused_before_it_is_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        monkeypatch.setattr(sys, "argv", ["run", "--port", str(port)])
        with pytest.raises(SystemExit, match=f"run: port {port} is taken by another program"):
            run.main()
