"""The workers of a fleet, as they have registered in files or in etcd."""

from __future__ import annotations

import base64
import json
import os

import pytest
from backedge.base.errors import SetupError
from backedge.cli.doctor import discovery
from backedge.cli.doctor.discovery import default_place, fetch_good, parse_instance, read_fleet

from tests.cli.doctor.fleets import HERMES, card, serve, write_cards


def test_files(tmp_path) -> None:
    place = write_cards(tmp_path, card("b"), card("a", None, 255, dyn=1, tool_call_parser="x"))
    plain, post_processing = read_fleet(place)
    assert (plain.model, plain.instance, plain.post_processing) == ("a", "ff", None)
    assert (plain.dyn_tool_call_parser, plain.dyn_reasoning_parser) == ("x", None)
    assert (post_processing.model, post_processing.post_processing) == ("b", HERMES)
    assert post_processing.context_length == 2048


def test_etcd() -> None:
    value = base64.b64encode(json.dumps(card("a")).encode()).decode()
    with serve({"/v3/kv/range": (200, json.dumps({"kvs": [{"key": "", "value": value}]}))}) as url:
        assert [worker.model for worker in read_fleet(url)] == ["a"]
    with serve({"/v3/kv/range": (200, "{}")}) as url:
        assert read_fleet(url) == []


@pytest.mark.parametrize("answer", ["", "[]", '{"kvs": 7}', '{"kvs": [{"value": "?"}]}'])
def test_what_is_not_etcd_is_refused(answer) -> None:
    with serve({"/v3/kv/range": (200, answer)}) as url, pytest.raises(SetupError, match="etcd"):
        read_fleet(url)


@pytest.mark.parametrize(
    ("variables", "place"),
    [
        ({}, "http://localhost:2379"),
        ({"ETCD_ENDPOINTS": "http://a:1,http://b:2"}, "http://a:1"),
        ({"DYN_DISCOVERY_BACKEND": "file", "DYN_FILE_KV": "/kv"}, "/kv"),
    ],
)
def test_the_place_is_that_of_dynamos_variables(variables, place, monkeypatch) -> None:
    for name in ("ETCD_ENDPOINTS", "DYN_DISCOVERY_BACKEND", "DYN_FILE_KV"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert default_place() == place


@pytest.mark.parametrize(
    "document",
    [
        b"{",
        b"[]",
        b'{"card_json": ' + b"[" * 10**5,
        json.dumps(card()).replace("vllm", '"').encode(),
    ],
)
def test_a_card_of_another_form_is_refused(document) -> None:
    with pytest.raises(SetupError, match="card cannot be read"):
        parse_instance(document)


def test_a_place_that_is_none_is_refused(tmp_path) -> None:
    with pytest.raises(SetupError, match="--discovery"):
        read_fleet(str(tmp_path / "missing"))


def test_a_status_that_is_no_answer() -> None:
    with serve({"/health": (503, "sick"), "/broken": (500, "")}) as url:
        assert fetch_good(f"{url}/health", also=(503,)) == b"sick"
        for path in ("/health", "/broken"):
            with pytest.raises(SetupError, match="HTTP 50"):
                fetch_good(url + path)


def test_only_files_of_some_size_are_cards(tmp_path, monkeypatch) -> None:
    place = write_cards(tmp_path, card())
    monkeypatch.setattr(discovery, "MAX_ANSWER_BYTES", 10)
    with pytest.raises(SetupError, match="more than 10 bytes"):
        read_fleet(place)
    os.mkfifo(tmp_path / "v1" / "mdc" / "a")
    with pytest.raises(SetupError, match="not a file"):
        read_fleet(place)
