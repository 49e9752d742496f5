"""Draws the figures of `benchmarks.parsers`: cost per token by argument length, a panel a family.

    python -m benchmarks.parsers --json --rounds 3 --limit-s 2 \
        --families hermes qwen3_coder llama3_json pythonic > report.json
    python -m benchmarks.plot report.json docs/parser_cost.svg

These commands make docs/parser_cost.svg, with SGLang's parsers if `sglang` is installed.
All panels share the same logarithmic axes. A call that was given up after the time limit
is a lower bound: it has an open marker with an arrow and ends its line, because longer
calls were not tried. Figures with a wrong result are left out. The picture has its own
background, so that it is readable on pages in dark mode.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import NamedTuple

import msgspec

from .parser_systems import OURS, SGLANG, VLLM
from .parsers import Report, Row, Settings

# Pixels: the panels, the margins, and the distances from a panel's frame to its texts.
PANEL_WIDTH, PANEL_HEIGHT, GAP = 212, 250, 14
LEFT, TOP, RIGHT, BOTTOM = 68, 112, 16, 58
TICK_ROOM, TITLE_ROOM, LABEL_ROOM = 18, 42, 9
# Factors by which an axis extends before its first figure, and after its last and the label there.
ROOM, LABELLED_ROOM = 1.45, 3.0
INK, FAINT, FRAME, PAPER = "#1f2328", "#59636e", "#d1d9e0", "#ffffff"
TITLE = "What a token of a long tool call costs its parser"
KILO, DECIMAL_BELOW = 1_000, 10


@dataclass(frozen=True)
class Look:
    """How a system's series is drawn.

    marker: an SVG path around the point.
    figure_at: offset of the figure from the last point, in pixels, and the text's anchor.
    """

    label: str
    colour: str
    marker: str
    figure_at: tuple[float, float, str]


# Shapes as well as colours, for readers and printers without colours. Ours is drawn last, on top.
ARROW = "M0,-8v-14m-3.5,4.5l3.5,-4.5l3.5,4.5"
LOOKS = {
    VLLM: Look("vLLM", "#c2410c", "M-4,-4h8v8h-8z", (-8, -7, "end")),
    SGLANG: Look("SGLang", "#6d28d9", "M0,-5.2l5,8.7h-10z", (-3, 18, "start")),
    OURS: Look(
        "Backedge",
        "#0969da",
        "M-4.4,0a4.4,4.4 0 1,0 8.8,0a4.4,4.4 0 1,0 -8.8,0z",
        (0, -9, "middle"),
    ),
}
DRAWN_FIRST = list(LOOKS)


class Point(NamedTuple):
    """One figure to draw."""

    size: int
    us: float
    at_least: bool


@dataclass(frozen=True)
class LogAxis:
    """Maps values to pixels by their logarithm: `low` to `start`, `high` to `end`."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """Return the pixel of `value`."""
        return self.start + (self.end - self.start) * math.log(value / self.low) / math.log(
            self.high / self.low
        )

    def decades(self) -> Iterator[float]:
        """Yield the powers of ten on the axis."""
        for exponent in range(
            math.ceil(math.log10(self.low)), math.floor(math.log10(self.high)) + 1
        ):
            yield 10.0**exponent


def points(row: Row) -> list[Point]:
    """Return the figures of a row, up to its first lower bound."""
    shown = [
        Point(cell.size, cell.us, cell.at_least)
        for cell in row.cells
        if cell.us is not None and not cell.note
    ]
    end = next((number for number, point in enumerate(shown, start=1) if point.at_least), None)
    return shown[:end]


def axes(rows: Iterable[Row]) -> tuple[LogAxis, LogAxis]:
    """Return the axes of a panel at 0, 0 that shows all figures of `rows`."""
    shown = [point for row in rows for point in points(row)]
    sizes, costs = [point.size for point in shown], [point.us for point in shown]
    return (
        LogAxis(min(sizes) / ROOM, max(sizes) * LABELLED_ROOM, 0, PANEL_WIDTH),
        LogAxis(min(1.0, *costs), max(costs) * LABELLED_ROOM, PANEL_HEIGHT, 0),
    )


def text(
    x: float, y: float, content: str, anchor: str = "middle", colour: str = FAINT, more: str = ""
) -> str:
    """Return a line of text. more: further attributes."""
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text {place} fill="{colour}" {more}>{escape(content)}</text>'


def marker(x: float, y: float, look: Look, *, is_open: bool) -> str:
    """Return a series' marker; an open marker has an arrow, because the figure may be higher."""
    shape, fill = (look.marker + ARROW, PAPER) if is_open else (look.marker, look.colour)
    place = f'transform="translate({x:.1f},{y:.1f})"'
    return f'<path d="{shape}" {place} fill="{fill}" stroke="{look.colour}" stroke-width="1.8"/>'


def short(number: float) -> str:
    """Return a number short enough for a tick."""
    return f"{number / KILO:g}k" if number >= KILO else f"{number:g}"


def series(row: Row, x: LogAxis, y: LogAxis) -> Iterator[str]:
    """Yield a row's line, its markers, and the figure at its end."""
    look, shown = LOOKS[row.parser], points(row)
    if not shown:
        return
    line = " ".join(f"{x(point.size):.1f},{y(point.us):.1f}" for point in shown)
    yield f'<polyline points="{line}" fill="none" stroke="{look.colour}" stroke-width="2"/>'
    for point in shown:
        yield marker(x(point.size), y(point.us), look, is_open=point.at_least)
    figure = f"{'> ' if point.at_least else ''}{point.us:,.{int(point.us < DECIMAL_BELOW)}f}"
    right, down, anchor = look.figure_at
    at = x(point.size) + right, y(point.us) + down
    yield text(*at, figure, anchor, look.colour, 'font-weight="600"')


def panel(family: str, rows: list[Row], x: LogAxis, y: LogAxis) -> Iterator[str]:
    """Yield a family's panel at 0, 0."""
    for size in sorted({cell.size for row in rows for cell in row.cells}):
        yield f'<path d="M{x(size):.1f},0v{PANEL_HEIGHT}" stroke="{FRAME}" stroke-dasharray="2 3"/>'
        yield text(x(size), PANEL_HEIGHT + TICK_ROOM, short(size))
    for cost in y.decades():
        yield f'<path d="M0,{y(cost):.1f}h{PANEL_WIDTH}" stroke="{FRAME}"/>'
    frame = f"M0,0h{PANEL_WIDTH}v{PANEL_HEIGHT}h-{PANEL_WIDTH}z"
    yield f'<path d="{frame}" fill="none" stroke="{FRAME}"/>'
    yield text(
        PANEL_WIDTH / 2, -LABEL_ROOM, family, colour=INK, more='font-weight="600" font-size="13"'
    )
    for row in sorted(rows, key=lambda row: DRAWN_FIRST.index(row.parser)):
        yield from series(row, x, y)


def heading(settings: Settings) -> Iterator[str]:
    """Yield the title and the legend."""
    yield text(LEFT, 30, TITLE, "start", INK, 'font-weight="600" font-size="17"')
    at = float(LEFT + 5)
    for look in reversed(LOOKS.values()):
        yield marker(at, 56, look, is_open=False) + text(at + 12, 60, look.label, "start", INK)
        at += 36 + 7 * len(look.label)
    rounds = (
        f"Medians of up to {settings.rounds} rounds. "
        f"Open: given up after {settings.limit_s:g} s, so at least that."
    )
    yield text(at, 60, rounds, "start")


def svg(report: Report) -> str:
    """Return the picture of all families in the report."""
    rows = [row for row in report.rows if row.parser in LOOKS]
    x, y = axes(rows)
    families = list(dict.fromkeys(row.family for row in rows))
    panels_width = len(families) * (PANEL_WIDTH + GAP) - GAP
    width, height, middle = (
        LEFT + panels_width + RIGHT,
        TOP + PANEL_HEIGHT + BOTTOM,
        TOP + PANEL_HEIGHT / 2,
    )
    costs_at = f'transform="translate(20,{middle}) rotate(-90)"'
    sizes_at = LEFT + panels_width / 2, height - BOTTOM + TITLE_ROOM
    lines = [
        f'<rect width="{width}" height="{height}" rx="8" fill="{PAPER}"/>',
        *heading(report.settings),
        *(text(LEFT - LABEL_ROOM, TOP + y(cost) + 4, f"{cost:,g}", "end") for cost in y.decades()),
        text(0, 0, "CPU per token (µs)", colour=INK, more=costs_at),
        text(*sizes_at, "argument length (tokens)", colour=INK),
    ]
    for number, family in enumerate(families):
        drawn = panel(family, [row for row in rows if row.family == family], x, y)
        lines += [
            f'<g transform="translate({LEFT + number * (PANEL_WIDTH + GAP)},{TOP})">',
            *drawn,
            "</g>",
        ]
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    font = 'font-family="system-ui, sans-serif" font-size="12"'
    opening = f'<svg xmlns="http://www.w3.org/2000/svg" role="img" {size} {font}>'
    return "\n".join([opening, f"<title>{TITLE}</title>", *lines, "</svg>\n"])


def main() -> None:
    """Draw a report."""
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").splitlines()[0], allow_abbrev=False
    )
    parser.add_argument("report", type=Path, help="what `benchmarks.parsers --json` printed")
    parser.add_argument("picture", type=Path)
    arguments = parser.parse_args()
    report = msgspec.json.decode(arguments.report.read_bytes(), type=Report)
    arguments.picture.write_text(svg(report), encoding="utf-8")


if __name__ == "__main__":
    main()
