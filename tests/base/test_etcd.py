"""Processes that register in etcd end early where there is none."""

from __future__ import annotations

import socket

import pytest
from backedge.base import limits
from backedge.base.errors import SetupError
from backedge.base.etcd import VARIABLE, check_etcd


def test_one_of_the_places_must_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        place = f"127.0.0.1:{server.getsockname()[1]}"
        for places in (place, f"http://{place}", f"http://127.0.0.1:1,https://{place}"):
            monkeypatch.setenv(VARIABLE, places)
            check_etcd("etcd")


@pytest.mark.parametrize("place", ["http://127.0.0.1:1", "127.0.0.1:1", "http://[", "http://h:x"])
def test_without_etcd_it_is_a_sentence(monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    monkeypatch.setattr(limits, "ETCD_S", 0.1)
    monkeypatch.setenv(VARIABLE, place)
    with pytest.raises(SetupError, match="no etcd answers there") as caught:
        check_etcd("etcd")
    assert f"{VARIABLE} {place}" in str(caught.value)


@pytest.mark.parametrize("backend", ["file", "kubernetes", "mem"])
def test_other_places_need_no_etcd(monkeypatch: pytest.MonkeyPatch, backend: str) -> None:
    monkeypatch.setenv(VARIABLE, "http://127.0.0.1:1")
    check_etcd(backend)
