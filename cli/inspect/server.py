"""`backedge inspect --serve`: serves the pages of a file's requests to this machine only.

The server listens on 127.0.0.1 and answers only under an unguessable path, because other users of
the machine can reach the port. Pages of other origins cannot read the answers, and requests for
another host name (DNS rebinding) are rejected.
"""

from __future__ import annotations

import html
import http.server
import secrets
import time
from collections.abc import Callable, Sequence
from http import HTTPStatus

from typing_extensions import override

from ...base.errors import BackedgeError
from ...base.hidden_characters import escape_hidden
from .page import fill
from .summary import RequestRow

HOST = "127.0.0.1"
HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


def build_server(
    port: int, rows: Sequence[RequestRow], render: Callable[[RequestRow], str]
) -> tuple[http.server.ThreadingHTTPServer, str]:
    """Build a listening server; return it and the address to open.

    port: 0 for any free port. render: returns the page of a request.
    Raises OSError if the port is taken.
    """
    secret = secrets.token_urlsafe(16)

    class Handler(_Handler):
        pages = _Pages(f"/{secret}/", rows, render)

    server = http.server.ThreadingHTTPServer((HOST, port), Handler)
    server.daemon_threads = True
    return server, f"http://{HOST}:{server.server_port}/{secret}/"


class _Pages:
    """The pages to serve. prefix: of all paths."""

    def __init__(
        self, prefix: str, rows: Sequence[RequestRow], render: Callable[[RequestRow], str]
    ) -> None:
        self._prefix = prefix
        self._rows = {str(row.number): row for row in rows}
        self._render = render

    def find(self, path: str) -> str | None:
        """Return the page at a path; None if it does not exist."""
        if not secrets.compare_digest(path[: len(self._prefix)].encode(), self._prefix.encode()):
            return None
        name = path.removeprefix(self._prefix)
        if not name and len(self._rows) == 1:
            name = next(iter(self._rows))
        if not name:
            return render_list(list(self._rows.values()))
        row = self._rows.get(name)
        return None if row is None else self._render(row)


class _Handler(http.server.BaseHTTPRequestHandler):
    pages: _Pages
    server: http.server.ThreadingHTTPServer

    def do_GET(self) -> None:
        """Answer with a page."""
        hosts = {f"{name}:{self.server.server_port}" for name in (HOST, "localhost")}
        if self.headers.get("Host") not in hosts:
            self._answer(HTTPStatus.FORBIDDEN, "Open the printed address.")
            return
        try:
            page = self.pages.find(self.path)
        except BackedgeError as error:
            self._answer(HTTPStatus.INTERNAL_SERVER_ERROR, html.escape(str(error)))
            return
        if page is None:
            self._answer(HTTPStatus.NOT_FOUND, "This page does not exist.")
        else:
            self._answer(HTTPStatus.OK, page)

    def _answer(self, status: HTTPStatus, page: str) -> None:
        body = page.encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        for name, value in HEADERS.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    @override
    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: paths contain the secret."""


def render_list(rows: Sequence[RequestRow]) -> str:
    """Return the page that lists the requests of a file.

    What worker and frontend have recorded of one request is one row.
    """
    by_id: dict[str, list[RequestRow]] = {}
    for row in rows:
        by_id.setdefault(row.id, []).append(row)
    return fill("list", ["list.js"], rows="".join(map(_render_row, by_id.values())))


def _render_row(recorded: Sequence[RequestRow]) -> str:
    row = recorded[0]
    began = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(row.began))
    links = " ".join(
        f'<small><a href="{each.number}">{each.number} {each.source}</a></small>'
        for each in recorded
    )
    state = "" if row.outcome == "finished" else ' class="bad"'
    return (
        f'<tr><td><a href="{row.number}">{show(row.id)}</a><br>{links} '
        f"<small>{show(row.model)}</small></td><td>{began}</td>"
        f'<td class="words">{show(row.words)}</td><td{state}>{row.result}</td>'
        f'<td>{show(row.parsers)}</td><td class="n">{row.tokens}</td>'
        f'<td class="n">{row.tool_calls}</td><td class="n">{row.duration_ms:.0f}</td></tr>'
    )


def show(text: str) -> str:
    """Return text of a recording as HTML."""
    return html.escape(escape_hidden(text))
