"""Answers are read within bounds of time, size and depth; each lie of a server is one error."""

from __future__ import annotations

import json
import time

import msgspec
import pytest
from backedge.base.errors import SetupError
from backedge.base.limits import ANSWER_TIMEOUT_S, REPLAY_TIMEOUT_S
from backedge.cli import http_answer
from backedge.cli.doctor import checkup, discovery
from backedge.cli.http_answer import decode_json, fetch
from backedge.cli.replay import live
from backedge.cli.replay.live import ask
from click.testing import CliRunner

from tests.cli.doctor.fleets import serve
from tests.cli.liars import LIES, lie
from tests.cli.replay.recordings import call

TIMEOUT_S = 0.4
TOO_LATE_S = 5


@pytest.fixture(autouse=True)
def _short_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (http_answer, checkup):
        monkeypatch.setattr(module, "ANSWER_TIMEOUT_S", TIMEOUT_S)
    monkeypatch.setattr(http_answer, "MAX_ANSWER_BYTES", 2**21)


@pytest.mark.parametrize("name", LIES)
def test_a_lie_is_an_error_of_replay(name: str) -> None:
    began = time.monotonic()
    with lie(LIES[name]) as url:
        try:
            given, said = ask(call(), url), url
        except SetupError as error:
            given, said = [], str(error)
    # What is not a stream of events is an answer without deltas.
    assert given == []
    assert url in said or "the frontend" in said
    assert time.monotonic() - began < TOO_LATE_S


@pytest.mark.parametrize("name", LIES)
def test_a_lie_is_a_finding_of_doctor(name: str) -> None:
    began = time.monotonic()
    with lie(LIES[name]) as url:
        target = checkup.Target(url, [], None, None, None, url, (url,))
        findings = list(checkup.examine_all(target))
    assert {"frontend", "worker"} <= {finding.topic for finding in findings}
    assert time.monotonic() - began < TOO_LATE_S


@pytest.mark.parametrize("name", ["silence", "a drip", "a drip of headers"])
def test_a_command_waits_once_however_many_servers_lie(name: str) -> None:
    with lie(LIES[name]) as url:
        workers = [word for n in range(5) for word in ("--worker", f"{url}/{n}")]
        result = CliRunner().invoke(checkup.command, [url, "--discovery", url, *workers, "--json"])
    said = [finding["message"] for finding in json.loads(result.output)["findings"]]
    waited = [text for text in said if "has not answered completely" in text]
    unasked = [text for text in said if "is not asked" in text]
    assert len(waited) == 1
    assert len(unasked) == 6


def test_a_replay_waits_as_long_as_its_recordings_took() -> None:
    assert live.find_timeout([]) == ANSWER_TIMEOUT_S
    recording = call()
    last = msgspec.structs.replace(recording.chunks[-1], at_ms=7000.0)
    recording = msgspec.structs.replace(recording, chunks=[*recording.chunks, last])
    assert live.find_timeout([recording] * 3) == ANSWER_TIMEOUT_S + 21
    assert live.find_timeout([recording] * 100) == REPLAY_TIMEOUT_S


def test_bounds_and_status() -> None:
    size = 2**21
    with serve({"/short": (200, "1" * size), "/long": (200, "1" * (size + 1))}) as url:
        assert len(fetch(f"{url}/short").body) == size
        with pytest.raises(SetupError, match="more than 2,097,152 bytes"):
            fetch(f"{url}/long")
        assert fetch(f"{url}/missing", b"{}") == (404, b"")
    with pytest.raises(SetupError, match="does not answer"):
        fetch(f"{url}/short")
    with pytest.raises(SetupError, match="is not a URL"):
        fetch("file:///etc/hostname")


def test_json_of_another_program() -> None:
    assert decode_json(dict[str, int], b'{"a": 1}', "x") == {"a": 1}
    with pytest.raises(SetupError, match="x cannot be read"):
        decode_json(int, b"[" * 10**6, "x")


def test_discovery_takes_the_same_bounds() -> None:
    with lie(LIES["a flood"]) as url, pytest.raises(SetupError, match="more than"):
        discovery.fetch_good(url)
