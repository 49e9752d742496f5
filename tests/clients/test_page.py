"""docs/clients.md has the row of each client, as the tests try it."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.clients.adapters import CLIENTS
from tests.clients.adapters.base import ClientAdapter

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "clients.md"
CONVERSATIONS = {
    ("text", "call", "two calls"): "text, calls",
    ("agent",): "agent with a tool",
    (): "",
}


def find_version(package: str) -> str:
    """Return the version that tools/setup installs."""
    pins = dict(
        re.findall(r"^([\w.-]+)==(\S+)$", (HERE / "requirements.txt").read_text(), re.MULTILINE)
    )
    in_node = json.loads((HERE / "vercel" / "package.json").read_text())["dependencies"]
    found: str = {**pins, **in_node}[package]
    return found


def test_every_client_is_installed_by_its_digest() -> None:
    pins = re.compile(r"^[\w.-]+(?:\[.*\])?==\S+", re.MULTILINE)
    lock = (HERE / "requirements.lock").read_text()
    assert pins.findall(lock) == pins.findall((HERE / "requirements.txt").read_text())
    assert len(re.findall(r"==\S+ \\\n    --hash=sha256:", lock)) == len(pins.findall(lock))
    wanted = json.loads((HERE / "vercel" / "package.json").read_text())["dependencies"]
    packages = json.loads((HERE / "vercel" / "package-lock.json").read_text())["packages"]
    assert packages.pop("")["dependencies"] == wanted
    assert all(package["integrity"].startswith("sha512-") for package in packages.values())


def write_row(client: type[ClientAdapter]) -> str:
    cells = (
        client.label,
        f"{client.package} {find_version(client.package)}",
        f"`{client.api}`",
        CONVERSATIONS[client.conversations],
        client.reasoning,
        client.structured,
        f"`{client.error}`",
    )
    return "".join(f"| {cell} " if cell else "| " for cell in cells) + "|"


def test_the_page_has_the_row_of_each_client() -> None:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("| Client |"))
    rows = lines[start + 2 : start + 2 + len(CLIENTS)]
    assert rows == [write_row(client) for client in CLIENTS]
    assert not lines[start + 2 + len(CLIENTS)].startswith("|")
