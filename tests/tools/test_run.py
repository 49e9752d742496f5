"""`make run`: what it says of a port that it cannot have, and what its frontend may import."""

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


@pytest.mark.parametrize(
    ("arguments", "flags"),
    [
        ([], ()),
        (["--plain", "--tokenizer-backend", "sglang"], ()),
        (["--tokenizer-module", "my.own"], ("--allow-tokenizer-module", "my.own")),
        (["--tokenizer-module=my.own", "--plain"], ("--allow-tokenizer-module", "my.own")),
    ],
)
def test_the_frontend_may_import_the_tokenizer_that_the_user_names(
    arguments: list[str], flags: tuple[str, ...]
) -> None:
    assert run.allow_tokenizer(arguments) == flags
