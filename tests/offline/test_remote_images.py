"""Images are fetched from allowed hosts only, within limits, redirects and names included."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from backedge.offline import remote_images
from backedge.offline.contracts import OptionValueError
from backedge.offline.remote_images import RemoteImages
from backedge.offline.rows import RowFailure

PUBLIC = "93.184.216.34"
BODY = bytes(range(256)) * 300
# The test has ended.
LEFT = threading.Event()


class Handler(BaseHTTPRequestHandler):
    """Answers a path as its name says."""

    def do_GET(self) -> None:
        port = self.headers["Host"].rpartition(":")[2]
        match self.path.split("/")[1:]:
            case ["to", count] if int(count):
                self.reply(302, location=f"/to/{int(count) - 1}")
            case ["elsewhere"]:
                self.reply(302, location=f"http://localhost:{port}/image")
            case ["missing"]:
                self.reply(404)
            case ["short"]:
                self.reply(200, b"begin", length=99)
            case ["slow"]:
                self.reply(200, b"begin", length=99)
                LEFT.wait(30)
            case _:
                self.reply(200, BODY)

    def reply(
        self, status: int, body: bytes = b"", location: str = "", length: int | None = None
    ) -> None:
        self.send_response(status)
        if location:
            self.send_header("Location", location)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[ThreadingHTTPServer]:
    made = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    LEFT.clear()
    thread = threading.Thread(target=made.serve_forever, args=(0.01,))
    thread.start()
    yield made
    LEFT.set()
    made.shutdown()
    made.server_close()
    thread.join()


def url(server: ThreadingHTTPServer, path: str, host: str = "127.0.0.1") -> str:
    return f"http://{host}:{server.server_port}{path}"


@contextmanager
def refused(part: str) -> Iterator[None]:
    with pytest.raises(RowFailure) as caught:
        yield
    assert caught.value.error.kind == "image"
    assert part in caught.value.error.message


@pytest.mark.parametrize("path", ["/image", "/to/3", ""])
def test_an_image_of_an_allowed_host(server, path):
    assert RemoteImages(["127.0.0.1"]).fetch(url(server, path)) == BODY


def test_a_name_and_its_private_address(server):
    names = [f"localhost:{server.server_port}"]
    with refused("leads to the private address 127.0.0.1"):
        RemoteImages(names).fetch(url(server, "/image", "localhost"))
    assert (
        RemoteImages([*names, "127.0.0.0/8", "::1"]).fetch(url(server, "/a", "LOCALHOST")) == BODY
    )
    with refused("not in image_hosts"):
        RemoteImages(["localhost", "127.0.0.0/8"]).fetch(url(server, "/image", "localhost"))


@pytest.mark.parametrize(
    ("path", "part"),
    [
        ("/to/4", "more than 3 redirects"),
        ("/elsewhere", "is on the host 'localhost'"),
        ("/missing", "its host answers 404"),
        ("/short", "ended early"),
    ],
)
def test_what_a_host_may_answer(server, path, part):
    with refused(part):
        RemoteImages(["127.0.0.1"]).fetch(url(server, path))


@pytest.mark.parametrize(
    "given",
    [
        "http://user@images.example/a.png",
        "http://images.example:99999/a.png",
        "https://images.example:8443/a.png",
        "http://other.example/a.png",
        "http://images.example.other.example/a.png",
        "http://127.0.0.1/a.png",
        "http://[::ffff:127.0.0.1]/a.png",
        "http://2130706433/a.png",
        "http:///a.png",
        "http:images.example",
        "http://[/a.png",
    ],
)
def test_other_urls_are_refused_before_anything_is_asked(given, monkeypatch):
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: pytest.fail("looked up"))
    with refused("the image"):
        RemoteImages(["images.example"]).fetch(given)


@pytest.mark.parametrize(
    "address",
    [
        *("10.0.0.1", "169.254.169.254", "224.0.0.1", "::ffff:10.0.0.1", "fd00::1", "ff02::1"),
        *("64:ff9b::a9fe:a9fe", "64:ff9b:1::1", "2002:a9fe:a9fe::1", "::127.0.0.1", "fec0::1"),
        *("::ffff:0:127.0.0.1", "2001:0:7f00:1::"),
    ],
)
def test_one_private_address_of_a_name_is_enough(address, monkeypatch):
    found = [(0, 0, 0, "", (each, 80)) for each in (PUBLIC, address)]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    with refused("leads to the private address"):
        RemoteImages(["images.example"]).fetch("http://images.example/a.png")


def test_the_connection_goes_to_the_address_that_was_checked(monkeypatch):
    asked: list[object] = []
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [(0, 0, 0, "", (PUBLIC, 80))])

    def connect(address: object, _: float) -> socket.socket:
        asked.append(address)
        raise OSError("no network")

    monkeypatch.setattr(socket, "create_connection", connect)
    with refused("OSError: no network"):
        RemoteImages(["images.example"]).fetch("http://images.example/a.png")
    assert asked == [(PUBLIC, 80)]


def test_a_large_body_and_a_slow_one(server, monkeypatch):
    monkeypatch.setattr(remote_images, "MAX_IMAGE_BYTES", len(BODY) - 1)
    with refused(f"more than {len(BODY) - 1:,} bytes"):
        RemoteImages(["127.0.0.1"]).fetch(url(server, "/image"))
    monkeypatch.setattr(remote_images, "IMAGE_FETCH_S", 0.3)
    with refused("the image"):
        RemoteImages(["127.0.0.1"]).fetch(url(server, "/slow"))


@pytest.mark.parametrize(
    "hosts", [["http://a"], ["a/b"], [""], [5], "a.example", ["a@b"], ["a:99999"], ["a:x"]]
)
def test_hosts_that_are_none(hosts):
    with pytest.raises(OptionValueError, match="image_hosts"):
        RemoteImages(hosts)
