"""A call that does not end is given up, and so is a name that nothing resolves."""

from __future__ import annotations

import queue
import socket
import threading
from collections.abc import Callable, Iterator

import pytest
from backedge.base import limits
from backedge.base.errors import SetupError
from backedge.base.etcd import VARIABLE, check_etcd
from backedge.base.time_limit import CallTimeoutError, call_within
from backedge.cli import http_answer
from backedge.offline import remote_images
from backedge.offline.remote_images import RemoteImages
from backedge.offline.rows import RowFailure

NAME = "images.example"
SHORT_S = 0.05


def check_place() -> None:
    check_etcd("etcd")


def fetch_answer() -> None:
    with http_answer.waiting_at_most(SHORT_S):
        http_answer.fetch(f"http://{NAME}")


def fetch_image() -> None:
    RemoteImages([NAME]).fetch(f"http://{NAME}/a.png")


@pytest.fixture
def silent_names(monkeypatch: pytest.MonkeyPatch) -> Iterator[queue.Queue[str]]:
    """Names that were looked up at a name server that does not answer until the test ends."""
    looked_up = queue.Queue[str]()
    ended = threading.Event()

    def look_up(host: str, *_: object, **__: object) -> list[object]:
        looked_up.put(host)
        ended.wait()
        raise OSError("no name server")

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    monkeypatch.setattr(limits, "ETCD_S", SHORT_S)
    monkeypatch.setattr(remote_images, "IMAGE_FETCH_S", SHORT_S)
    monkeypatch.setenv(VARIABLE, f"http://{NAME}:2379")
    yield looked_up
    ended.set()


@pytest.mark.parametrize(
    ("reach", "error"),
    [(check_place, SetupError), (fetch_answer, SetupError), (fetch_image, RowFailure)],
)
def test_a_name_server_that_does_not_answer(
    reach: Callable[[], None], error: type[Exception], silent_names: queue.Queue[str]
) -> None:
    with pytest.raises(error):
        reach()
    assert silent_names.get(timeout=60) == NAME  # a busy machine may give up before it asks


def test_a_call_gives_what_it_returns_or_raises() -> None:
    assert call_within(60, lambda: None) is None
    with pytest.raises(ZeroDivisionError):
        call_within(60, lambda: 1 // 0)
    with pytest.raises(CallTimeoutError):
        call_within(0, threading.Event().wait)
