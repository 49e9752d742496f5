"""`backedge inspect --serve`: serves the pages of a file's requests to this machine only.

The server listens on 127.0.0.1 and answers only under an unguessable path, because other users of
the machine can reach the port. Pages of other origins cannot read the answers, and requests for
another host name (DNS rebinding) are rejected.
"""

from __future__ import annotations

import html
import http.server
import secrets
from collections.abc import Callable, Sequence
from http import HTTPStatus

from typing_extensions import override

from ...base.errors import BackedgeError
from ...base.hidden_characters import escape_hidden
from .page import hash_source
from .summary import RequestRow

HOST = "127.0.0.1"
HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
LIST_STYLE = (
    ":root{color-scheme:light dark;font:15px/1.6 system-ui,sans-serif}"
    "body{max-width:60rem;margin:3rem auto;padding:0 1rem}"
    "table{border-collapse:collapse;width:100%}td,th{padding:.25rem .75rem;text-align:left}"
    "td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}"
)


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
    """Return the page that lists the requests of a file."""
    lines = "".join(
        f'<tr><td class="n"><a href="{row.number}">{row.number}</a></td>'
        f'<td><a href="{row.number}">{html.escape(escape_hidden(row.id))}</a></td>'
        f"<td>{html.escape(escape_hidden(row.model))}</td><td>{html.escape(row.parsers)}</td>"
        f'<td>{row.outcome}</td><td class="n">{row.tokens}</td><td class="n">{row.tool_calls}</td>'
        "</tr>"
        for row in rows
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Backedge inspect</title>'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        f"style-src '{hash_source(LIST_STYLE)}'\"><style>{LIST_STYLE}</style></head>"
        '<body><h1>Recorded requests</h1><table><thead><tr><th class="n">#</th>'
        '<th>request</th><th>model</th><th>parsers</th><th>outcome</th><th class="n">tokens</th>'
        f'<th class="n">calls</th></tr></thead><tbody>{lines}</tbody></table></body></html>'
    )
