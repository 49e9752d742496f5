"""Makes docs/inspect-light.png and docs/inspect-dark.png, screenshots of `backedge inspect`.

    python -m tools.inspect_pictures

They show a call whose argument contains the marker that ends calls, read by two parsers. Needs
Chromium, and vLLM for the second parser.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path

from backedge.cli.inspect.main import Options, choose_request, inspect_chosen
from backedge.cli.inspect.page import render_page
from backedge.cli.inspect.summary import Chosen
from backedge.parsers.base import ParserRequest

from tests.cli.browser import Browser, browse
from tests.cli.recorded import record_text, write
from tools.machine import find

DOCS = Path(__file__).parent.parent / "docs"
WIDTH, HEIGHT = 1400, 780
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "write_file",
            "parameters": {
                "type": "object",
                "properties": {"path": {"type": "string"}, "text": {"type": "string"}},
            },
        },
    }
]
TEXT = "A call ends with </tool_call>, as in Hermes."
CALL = {"name": "write_file", "arguments": {"path": "notes.md", "text": TEXT}}
OUTPUT = (
    "<think>\nThe user wants a note on the format.\n</think>\n\nI will write it down.\n"
    f"<tool_call>\n{json.dumps(CALL)}\n</tool_call><|im_end|>"
)


def write_page(folder: Path, beside: str) -> Path:
    """Write the page, with the other parsers `beside`, and return its path."""
    request = ParserRequest(tools=TOOLS, tool_choice="auto")
    recording = record_text(OUTPUT, 4, parser=request, response_id="chatcmpl-note")
    file = write(folder / "recording.jsonl", recording)
    options = Options((file,), None, None, beside, None, None, as_text=False, as_json=False)
    chosen = choose_request(options)
    assert isinstance(chosen, Chosen)  # noqa: S101 - the file has one request
    page = folder / "page.html"
    page.write_text(render_page(inspect_chosen(chosen, options)), encoding="utf-8")
    return page


def make_pictures(browser: Browser, folder: Path, beside: str = "kind=native") -> Sequence[Path]:
    """Write both pictures to `folder`, and return their paths."""
    page = write_page(folder, beside)
    made = []
    for scheme in ("light", "dark"):
        browser.prefer(scheme)
        browser.open(page, WIDTH, HEIGHT)
        browser.press("x")
        made.append(folder / f"inspect-{scheme}.png")
        browser.screenshot(made[-1])
    return made


def main() -> None:
    """Make the pictures."""
    executable = find("chromium")
    if executable is None:
        raise SystemExit("Chromium is missing; install it, or run tools/setup as root")
    with tempfile.TemporaryDirectory() as folder, browse(executable) as browser:
        for path in make_pictures(browser, Path(folder)):
            (DOCS / path.name).write_bytes(path.read_bytes())
            print(DOCS / path.name, (DOCS / path.name).stat().st_size)


if __name__ == "__main__":
    main()
