"""Fetches the images of rows from hosts that the user has allowed.

The address to which a name resolves is checked, and the connection goes to that address, so that no
second answer of a name server counts. Every redirect is checked in the same way.
"""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import ssl
import threading
import time
from collections.abc import Sequence
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPResponse
from typing import TypeGuard
from urllib.parse import SplitResult, urljoin, urlsplit

from typing_extensions import override

from ..base.errors import shorten, show
from ..base.limits import IMAGE_FETCH_S, MAX_IMAGE_BYTES, MAX_IMAGE_REDIRECTS
from ..base.time_limit import call_within
from .contracts import OptionValueError
from .rows import RowFailure

PORTS = {"http": 80, "https": 443}
REDIRECTS = (301, 302, 303, 307, 308)
CHUNK = 1 << 16
UNICAST, NAT64 = map(ipaddress.IPv6Network, ("2000::/3", "64:ff9b::/96"))
MASK = (1 << 32) - 1

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def is_remote(image: object) -> TypeGuard[str]:
    """Whether an image is the URL of a server."""
    return isinstance(image, str) and image.lower().startswith(("http:", "https:"))


def parse_network(text: str) -> Network | None:
    """Return an address or a network; None for the name of a host."""
    try:
        return ipaddress.ip_network(text.strip("[]"))
    except ValueError:
        return None


def is_host(text: object) -> bool:
    """Whether this is a host, HOST:PORT, an address or a network."""
    if not isinstance(text, str) or not text:
        return False
    if parse_network(text) is not None:
        return True
    try:
        parts = urlsplit(f"//{text}")
        return parts.netloc == text and bool(parts.hostname) and parts.port != 0 and "@" not in text
    except ValueError:
        return False


class RemoteImages:
    """Fetches images. hosts: names, with a port if it is not HTTP's, and addresses or networks.

    Private addresses are refused unless the hosts include them, whatever name leads there.
    """

    def __init__(self, hosts: Sequence[str]) -> None:
        """Check the hosts. Raises `OptionValueError`."""
        for host in [hosts] if isinstance(hosts, str) else hosts:
            if isinstance(hosts, str) or not is_host(host):
                allowed = "a list of hosts, HOST:PORT, addresses or networks"
                raise OptionValueError.wrong("vlm.image_hosts", host, allowed)
        networks = [parse_network(host) for host in hosts]
        self._networks = [network for network in networks if network is not None]
        self._names = {host.lower() for host in hosts if parse_network(host) is None}

    def fetch(self, url: str) -> bytes:
        """Return the body of a URL. Raises `RowFailure`."""
        name = f"the image {shorten(show(url), 200)}"
        end = time.monotonic() + IMAGE_FETCH_S
        try:
            for _ in range(MAX_IMAGE_REDIRECTS + 1):
                found = self._ask(url, name, end)
                if isinstance(found, bytes):
                    return found
                url = urljoin(url, found)
        except (OSError, HTTPException, ValueError) as error:
            message = f"{name} cannot be fetched ({type(error).__name__}: {error})."
            raise RowFailure("image", message) from error
        raise RowFailure("image", f"{name} has more than {MAX_IMAGE_REDIRECTS} redirects.")

    def _ask(self, url: str, name: str, end: float) -> bytes | str:
        """Return the body of a URL, or where it redirects."""
        parts = urlsplit(url)
        address = self._resolve(parts, name, end)
        connection = _Connection(parts, address, max(end - time.monotonic(), 0.001))
        # The connection's timeout counts from each packet.
        timer = threading.Timer(end - time.monotonic(), connection.end)
        timer.start()
        try:
            path = parts._replace(scheme="", netloc="", fragment="").geturl() or "/"
            connection.request("GET", path, headers={"Accept": "image/*"})
            with connection.getresponse() as response:
                return _read(response, name)
        finally:
            timer.cancel()
            connection.close()

    def _resolve(self, parts: SplitResult, name: str, end: float) -> str:
        """Return the address to connect to. Raises `RowFailure` for a host that is not allowed."""
        host, port = parts.hostname or "", _read_port(parts)
        own = parse_network(host)
        if parts.scheme not in PORTS or parts.username is not None:
            raise RowFailure("image", f"{name} leads to a URL that is not of http or https alone.")
        names = {f"{host}:{port}"} | ({host} if port == PORTS[parts.scheme] else set())
        if not names & self._names and (own is None or not self._lists(own.network_address)):
            message = f"{name} is on the host {shorten(host, 100)!r}, port {port}, which is not in"
            raise RowFailure("image", f"{message} image_hosts; download it, or add the host.")
        look_up = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
        found = call_within(end - time.monotonic(), look_up)
        addresses = [ipaddress.ip_address(each[4][0]) for each in found]
        for address in addresses:
            if not _is_public(address) and not self._lists(address):
                message = f"{name} leads to the private address {address}; image_hosts must list it"
                raise RowFailure("image", f"{message} if that is intended.")
        return str(addresses[0])

    def _lists(self, address: Address) -> bool:
        return any(address in network for network in self._networks)


def _read_port(parts: SplitResult) -> int:
    return parts.port or PORTS.get(parts.scheme, 0)


def _is_public(address: Address) -> bool:
    """Whether this is an address of the Internet; of one that holds another, the other counts."""
    if isinstance(address, ipaddress.IPv6Address):
        translated = ipaddress.IPv4Address(int(address) & MASK) if address in NAT64 else None
        inner = address.ipv4_mapped or address.sixtofour or translated
        if inner is None:
            return address.is_global and address in UNICAST
        address = inner
    return address.is_global and not address.is_multicast


class _Connection(HTTPConnection):
    """A connection to an address, for the host of a URL."""

    def __init__(self, parts: SplitResult, address: str, timeout: float) -> None:
        super().__init__(parts.hostname or "", _read_port(parts), timeout=timeout)
        self._address = address
        # The header `Host` has no port that goes without saying.
        self.default_port = PORTS[parts.scheme]
        self._secure = parts.scheme == "https"

    @override
    def connect(self) -> None:
        self.sock = socket.create_connection((self._address, self.port), self.timeout)
        if self._secure:
            context = ssl.create_default_context()
            self.sock = context.wrap_socket(self.sock, server_hostname=self.host)

    def end(self) -> None:
        """End the request, from another thread."""
        if (sock := self.sock) is not None:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)


def _read(response: HTTPResponse, name: str) -> bytes | str:
    """Return the body, or where the response redirects. Raises `RowFailure`."""
    if response.status in REDIRECTS and (location := response.getheader("Location")):
        return location
    if response.status != 200:  # noqa: PLR2004 - HTTP's OK
        raise RowFailure("image", f"{name} cannot be fetched: its host answers {response.status}.")
    body = bytearray()
    while chunk := response.read(CHUNK):
        body += chunk
        if len(body) > MAX_IMAGE_BYTES:
            raise RowFailure("image", f"{name} has more than {MAX_IMAGE_BYTES:,} bytes.")
    if response.length:
        raise RowFailure("image", f"{name} ended early, or took over {IMAGE_FETCH_S:g} s.")
    return bytes(body)
