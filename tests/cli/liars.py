"""Servers that answer anything but what was asked for, on sockets of their own."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

HEAD = b"HTTP/1.1 200 OK\r\n"
PAUSE_S = 0.05


def body(content: bytes, status: bytes = b"200 OK") -> Callable[[socket.socket], None]:
    head = b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n" % (status, len(content))
    return lambda client: client.sendall(head + content)


def repeat(beginning: bytes, piece: bytes, pause_s: float) -> Callable[[socket.socket], None]:
    """Send `piece` again and again, until the client hangs up."""

    def run(client: socket.socket) -> None:
        client.sendall(beginning)
        while True:
            client.sendall(piece)
            time.sleep(pause_s)

    return run


def send(content: bytes) -> Callable[[socket.socket], None]:
    return lambda client: client.sendall(content)


LIES: dict[str, Callable[[socket.socket], None]] = {
    "hangs up": send(b""),
    "silence": lambda _: time.sleep(5),
    "a drip": repeat(HEAD + b"\r\n", b'data: {"choices":[]}\n\n', PAUSE_S),
    "a drip of headers": repeat(HEAD, b"X-A: b\r\n", 10 * PAUSE_S),
    "a flood": repeat(HEAD + b"\r\ndata: ", b"x" * 2**20, 0),
    "no HTTP": send(b"SSH-2.0-x\r\n"),
    "a long status": send(b"HTTP/1.1 " + b"2" * 10**5),
    "broken chunks": send(HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\nxx"),
    "many headers": send(HEAD + b"".join(b"X-%d: a\r\n" % n for n in range(200)) + b"\r\n"),
    "too short": send(HEAD + b"Content-Length: 1000\r\n\r\ndata:"),
    "a redirect": send(b"HTTP/1.1 302 F\r\nLocation: file:///etc/passwd\r\n\r\n"),
    "an error": body(b"\x1b[2J", b"500 \x1b[2J"),
}
# Bodies of an answer, each as an event of a stream, too.
BODIES = {
    "depth": b"[" * 200_000,
    "depth in a field": b'{"choices": ' + b"[" * 200_000,
    "depth in instances": b'{"instances": ' + b"[" * 200_000 + b"]" * 200_000 + b"}",
    "no UTF-8": b"\xff\xfe",
    "no JSON": b"nonsense",
    "a list": b"[]",
    "a number": b"5",
    "choices": b'{"choices": 5}',
    "no index": b'{"choices": [{}]}',
    "an empty call": b'{"choices":[{"index":0,"delta":{"tool_calls":[{}]}}]}',
    "a number as text": b'{"choices":[{"index":0,"delta":{"content":5}}]}',
    "a negative index": b'{"choices":[{"index":-1,"delta":{"tool_calls":5}}]}',
}
for _name, _body in BODIES.items():
    LIES[_name] = body(_body)
    LIES[f"{_name} in an event"] = body(b"data: " + _body + b"\n\n")


@contextmanager
def lie(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """Answer each connection with a lie; yield the URL."""

    def serve(client: socket.socket) -> None:
        with client:
            try:
                client.settimeout(5)
                client.recv(2**16)
                answer(client)
            except OSError:
                pass  # the client has hung up

    def run() -> None:
        while True:
            try:
                client, _ = server.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(client,), daemon=True).start()

    server = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=run, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
    finally:
        server.shutdown(socket.SHUT_RDWR)
        server.close()
