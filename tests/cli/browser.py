"""A headless Chromium, driven by the DevTools protocol over pipes: nothing to install beside it."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-dev-shm-usage", "--hide-scrollbars", "--force-device-scale-factor=1"),
)
ANSWER_S = 60
# Keys that are no letter: code, and the number that Windows has for it.
CODES = {"ArrowDown": 40, "ArrowUp": 38, "PageDown": 34, "PageUp": 33, "Home": 36, "End": 35}
CODES |= {"Enter": 13, "Escape": 27, "Tab": 9}


class Browser:
    """One page of a browser.

    errors: what its console has said of errors, and exceptions. requested: addresses it asked for.
    """

    def __init__(self, executable: str, folder: str) -> None:
        from_us, to_browser = os.pipe()
        from_browser, to_us = os.pipe()
        command = [executable, *FLAGS, "--remote-debugging-pipe", f"--user-data-dir={folder}"]
        # The protocol's pipes are descriptors 3 and 4; not every shell can name those above 9.
        script = f'exec "$@" 3<&{from_us} 4>&{to_us}'
        self._process = subprocess.Popen(
            ["bash", "-c", script, "bash", *command, "about:blank"],
            pass_fds=(from_us, to_us),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(from_us)
        os.close(to_us)
        self._out = os.fdopen(to_browser, "wb", buffering=0)
        self._in = from_browser
        self._answers = select.poll()
        self._answers.register(from_browser, select.POLLIN)
        self._buffer = b""
        self._number = 0
        self._session: str | None = None
        self.errors: list[str] = []
        self.requested: list[str] = []
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(target["targetId"] for target in targets if target["type"] == "page")
        attached = self.call("Target.attachToTarget", targetId=page, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **arguments: Any) -> dict[str, Any]:
        """Call a method of the protocol, and return its result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": arguments}
        if self._session is not None:
            message["sessionId"] = self._session
        self._out.write(json.dumps(message).encode() + b"\0")
        while (answer := self._read()).get("id") != self._number:
            self._note(answer)
        assert "error" not in answer, answer
        result: dict[str, Any] = answer["result"]
        return result

    def open(self, path: Path | str, width: int = 1280, height: int = 800) -> None:
        """Load a file or an address, and wait until it is there."""
        self.errors.clear()
        self.requested.clear()
        self.resize(width, height)
        address = path.as_uri() if isinstance(path, Path) else path
        self.call("Page.navigate", url=address)
        self.wait("document.readyState === 'complete'")

    def resize(self, width: int, height: int) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def prefer(self, scheme: str) -> None:
        """Set what the system prefers: "light" or "dark"."""
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.call("Emulation.setEmulatedMedia", features=[feature])

    def js(self, expression: str) -> Any:
        """Return the value of an expression; promises are awaited."""
        result = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def wait(self, expression: str) -> Any:
        """Wait until an expression is true, and return its value."""
        deadline = time.monotonic() + ANSWER_S
        while not (value := self.js(expression)):
            assert time.monotonic() < deadline, f"never true: {expression}"
            time.sleep(0.02)
        return value

    def settle(self) -> None:
        """Wait until what was asked for is drawn."""
        self.js("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def press(self, *keys: str) -> None:
        """Press keys, one after the other."""
        for key in keys:
            code = CODES.get(key, ord(key[0].upper()))
            event: dict[str, Any] = {"key": key, "windowsVirtualKeyCode": code}
            text = {"text": key} if len(key) == 1 else {}
            text |= {"text": "\r"} if key == "Enter" else {}
            self.call("Input.dispatchKeyEvent", type="keyDown", **event, **text)
            self.call("Input.dispatchKeyEvent", type="keyUp", **event)
        self.settle()

    def screenshot(self, path: Path) -> None:
        self.settle()
        data = self.call("Page.captureScreenshot", format="png")["data"]
        path.write_bytes(base64.b64decode(data))

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._out.close()
        os.close(self._in)

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            assert self._answers.poll(ANSWER_S * 1000), "the browser does not answer"
            data = os.read(self._in, 1 << 20)
            assert data, "the browser is gone"
            self._buffer += data
        message, _, self._buffer = self._buffer.partition(b"\0")
        decoded: dict[str, Any] = json.loads(message)
        return decoded

    def _note(self, event: dict[str, Any]) -> None:
        match event.get("method"):
            case "Runtime.exceptionThrown":
                self.errors.append(str(event["params"]["exceptionDetails"]))
            case "Log.entryAdded":
                self.errors.append(str(event["params"]["entry"]["text"]))
            case "Network.requestWillBeSent":
                self.requested.append(event["params"]["request"]["url"])


@contextlib.contextmanager
def browse(executable: str) -> Iterator[Browser]:
    """Start a browser with an empty profile, and end it."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        browser = Browser(executable, folder)
        try:
            yield browser
        finally:
            browser.close()
