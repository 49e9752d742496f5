"""The page in a browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from backedge.cli.inspect.page import render_page
from backedge.recording.recording import Recording

from tests.cli.browser import Browser, browse
from tests.cli.inspect.inspecting import inspect_it
from tests.machine import require


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browse(require("chromium")) as started:
        yield started


@pytest.fixture
def show(browser: Browser, tmp_path: Path) -> Iterator[Any]:
    """Open the page of a recording; afterwards nothing must have failed or left the page."""

    def open_page(recording: Recording, *names: Any) -> Browser:
        path = tmp_path / "page.html"
        path.write_text(render_page(inspect_it(recording, *names)), encoding="utf-8")
        browser.open(path)
        browser.settle()
        return browser

    yield open_page
    assert browser.errors == []
    assert all(address.startswith("file://") for address in browser.requested)
