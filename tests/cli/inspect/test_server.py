"""The pages over HTTP: on this machine alone, under a path that nobody guesses."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from urllib.parse import urlsplit

import msgspec
import pytest
from backedge.cli.inspect.server import HOST, build_server, render_list
from backedge.cli.inspect.summary import RequestRow, summarize
from backedge.recording.recording import Recording
from backedge.recording.recording_file import NoRequestError

from tests.cli.recorded import record_transcript


def from_frontend(recording: Recording) -> Recording:
    return msgspec.structs.replace(recording, source="frontend")


ROWS = [
    summarize(1, record_transcript("reasoning_call")),
    summarize(2, record_transcript("parallel_calls", response_id="<script>1</script>")),
    summarize(3, record_transcript("plain_text", response_id="chatcmpl-both")),
    summarize(4, from_frontend(record_transcript("plain_text", response_id="chatcmpl-both"))),
]


def render(row: RequestRow) -> str:
    if row.number == 2:
        raise NoRequestError("<b>gone</b>")
    return f"page of {row.id}"


@pytest.fixture(name="address", scope="module")
def serve() -> Iterator[str]:
    server, address = build_server(0, ROWS, render)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield address
    server.shutdown()
    thread.join()
    server.server_close()


def get(address: str, path: str = "", host: str | None = None) -> tuple[int, str, dict[str, str]]:
    parts = urlsplit(address)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port or 0, timeout=10)
    headers = {} if host is None else {"Host": host}
    connection.request("GET", path or parts.path, headers=headers)
    response = connection.getresponse()
    body = response.read().decode()
    connection.close()
    return response.status, body, dict(response.getheaders())


def test_lists_the_requests_and_shows_one(address: str) -> None:
    status, page, headers = get(address)
    assert (status, headers["Cache-Control"]) == (200, "no-store")
    assert "chatcmpl-reasoning_call" in page
    assert get(address, f"{urlsplit(address).path}1")[:2] == (
        200,
        "page of chatcmpl-reasoning_call",
    )


def test_a_request_of_worker_and_frontend_is_one_row() -> None:
    page = render_list(ROWS)
    assert page.count("<tr>") == 4, "a head and three requests"
    assert '<a href="3">3 worker</a>' in page
    assert '<a href="4">4 frontend</a>' in page
    for shown in ("2017-07-14 02:40:00", "Hello! How can I help you today?", "<td>stop</td>"):
        assert shown in page


def test_hostile_names_are_text() -> None:
    assert "<script>1" not in render_list(ROWS)
    assert "&lt;script&gt;" in render_list(ROWS)


def test_an_error_is_told_as_text(address: str) -> None:
    status, page, _ = get(address, f"{urlsplit(address).path}2")
    assert (status, page) == (500, "&lt;b&gt;gone&lt;/b&gt;")


@pytest.mark.parametrize("path", ["/", "/1", "/guess/1", "/%00"])
def test_other_paths_show_nothing(address: str, path: str) -> None:
    assert get(address, path)[0] == 404


def test_a_request_that_is_not_there(address: str) -> None:
    assert get(address, f"{urlsplit(address).path}9")[0] == 404


def test_another_host_name_is_refused(address: str) -> None:
    assert get(address, host="evil.example")[0] == 403


def test_listens_on_this_machine_alone(address: str) -> None:
    assert urlsplit(address).hostname == HOST == "127.0.0.1"


def test_a_file_with_one_request_shows_it_at_once() -> None:
    server, address = build_server(0, ROWS[:1], render)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        assert get(address)[1] == "page of chatcmpl-reasoning_call"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
