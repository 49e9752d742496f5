"""Claim: the page of `backedge inspect` shows 100,000 tokens without a stall.

    python -m benchmarks.inspect_page [--json] [--tokens 100000] [--screens 200] [--rounds 3]

A recording of reasoning, text and calls in chunks of 8 tokens. Measured: the time to trace it and
to write the page, its size, and in headless Chromium the time until its first rows are drawn. Then
it is scrolled, by a screen per frame and in long jumps, and searched. A task of the browser's main
thread that lasts longer than 50 ms is a stall, as for the Long Tasks API; the longest gap between
frames says what a reader would see; of all rounds the least counts, since others may use the
machine. Needs Chromium; without a GPU the frames are software's.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
from backedge.cli.inspect.main import Options, choose_request, inspect_chosen
from backedge.cli.inspect.page import render_page
from backedge.cli.inspect.summary import Chosen
from backedge.parsers.base import ParserRequest
from backedge.postprocess import Chunk

from tests.cli.browser import Browser, browse, find_chromium
from tests.cli.recorded import record_chunks, write
from tests.support import TRANSCRIPTS, encode, parser_request

CHUNK = 8
STALL_MS = 50
MS = 1e3
MIB = 1 << 20
TEXT = "Some words of an answer that goes on, and a table | of | three | cells. "
CALL = '\n<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>\n'
# What the page is asked to do; each gives the longest task and the longest gap between frames.
WATCH = """
(async () => {
  const long = [];
  const watcher = new PerformanceObserver(list => long.push(...list.getEntries()));
  watcher.observe({type: 'longtask'});
  const gaps = [];
  let last = performance.now();
  const frame = () => new Promise(done => requestAnimationFrame(() => {
    const now = performance.now(); gaps.push(now - last); last = now; done();
  }));
  const grid = document.getElementById('grid');
  const began = performance.now();
  ACTION
  const took = performance.now() - began;
  await new Promise(done => setTimeout(done, 100));
  watcher.disconnect();
  return [Math.max(0, ...long.map(task => task.duration)), Math.max(...gaps), took];
})()
"""
ACTIONS = {
    "scroll": "for (let n = 0; n < SCREENS; n += 1) { grid.scrollTop += 600; await frame(); }",
    "jump": "for (let n = 0; n < SCREENS; n += 1) "
    "{ grid.scrollTop = (n * 7919 % SCREENS) / SCREENS * grid.scrollHeight; await frame(); }",
    "next state": "for (let n = 0; n < SCREENS; n += 1) { PAGE.jump(true); await frame(); }",
    "search": "for (const query of ['a', 'an', 'ans', 'paris', 'json_calls', '40', '']) "
    "{ PAGE.find(query); await frame(); }",
    "colours": "for (let n = 0; n < 6; n += 1) { PAGE.switchTheme(); await frame(); }",
}


class Row(msgspec.Struct):
    """What was done. longest_task_ms: 0 if no task took 50 ms. took_ms: all of it."""

    action: str
    longest_task_ms: float
    longest_frame_ms: float
    took_ms: float


class Report(msgspec.Struct):
    """A whole run; times in milliseconds. load_ms: until the first rows are drawn."""

    tokens: int
    trace_ms: float
    write_ms: float
    page_mib: float
    load_ms: float
    rows: list[Row]
    claim_held: bool


def write_recording(folder: Path, tokens: int) -> Options:
    """Write a recording, and return what looks into it."""
    unit = encode(TEXT) * 8 + encode(CALL)
    token_ids = (encode("<think>\nI think.\n</think>\n") + unit * (tokens // len(unit) + 1))[
        :tokens
    ]
    parts = [
        Chunk(
            token_ids=token_ids[at : at + CHUNK],
            finish_reason="length" if at + CHUNK >= tokens else None,
        )
        for at in range(0, tokens, CHUNK)
    ]
    request: ParserRequest = parser_request(TRANSCRIPTS["reasoning_call"])
    file = write(folder / "recording.jsonl", record_chunks(parts, parser=request))
    return Options(file, None, None, None, None, None, as_text=False, as_json=False)


def watch(browser: Browser, action: str, screens: int) -> Row:
    """Let the page do something, and return how it felt."""
    script = WATCH.replace("ACTION", ACTIONS[action]).replace("SCREENS", str(screens))
    return Row(action, *browser.js(script))


def least(rounds: Sequence[Sequence[Row]]) -> list[Row]:
    """Return the least of each figure."""
    return [
        Row(
            rows[0].action,
            min(row.longest_task_ms for row in rows),
            min(row.longest_frame_ms for row in rows),
            min(row.took_ms for row in rows),
        )
        for rows in zip(*rounds, strict=True)
    ]


def measure(executable: str, tokens: int, screens: int, rounds: int) -> Report:
    """Return all measurements."""
    with tempfile.TemporaryDirectory() as folder, browse(executable) as browser:
        options = write_recording(Path(folder), tokens)
        began = time.perf_counter()
        chosen = choose_request(options)
        if not isinstance(chosen, Chosen):
            raise SystemExit("the recording has not one request")
        inspection = inspect_chosen(chosen, options)
        traced = time.perf_counter()
        page = Path(folder) / "page.html"
        page.write_text(render_page(inspection), encoding="utf-8")
        written = time.perf_counter()
        browser.open(page)
        browser.settle()
        load_ms = browser.js(
            "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0"
        )
        rows = least(
            [[watch(browser, action, screens) for action in ACTIONS] for _ in range(rounds)]
        )
        return Report(
            tokens=tokens,
            trace_ms=(traced - began) * MS,
            write_ms=(written - traced) * MS,
            page_mib=page.stat().st_size / MIB,
            load_ms=load_ms,
            rows=rows,
            claim_held=all(row.longest_task_ms <= STALL_MS for row in rows),
        )


def show(report: Report) -> None:
    """Print a table."""
    print(
        f"{report.tokens:,} tokens: traced in {report.trace_ms:.0f} ms, "
        f"written in {report.write_ms:.0f} ms, {report.page_mib:.1f} MiB, "
        f"first rows after {report.load_ms:.0f} ms"
    )
    print(f"\n{'':12} {'longest task, ms':>18} {'longest frame, ms':>18} {'all, ms':>10}")
    for row in report.rows:
        task = f"{row.longest_task_ms:.0f}" if row.longest_task_ms else "below 50"
        print(f"{row.action:12} {task:>18} {row.longest_frame_ms:18.0f} {row.took_ms:10.0f}")
    print(f"\nclaim {'held' if report.claim_held else 'NOT held'}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--tokens", type=int, default=100_000)
    parser.add_argument("--screens", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    executable = find_chromium()
    if executable is None:
        raise SystemExit("there is no Chromium here; install it, or run tools/setup as root")
    report = measure(executable, options.tokens, options.screens, options.rounds)
    if options.json:
        print(msgspec.json.encode(report).decode())
    else:
        show(report)
    if not report.claim_held:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
