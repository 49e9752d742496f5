"""Draws panels and their series as one SVG."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from tools.dashboard.panels import Panel

COLUMNS, COLUMN, ROW, GAP = 24, 56, 30, 8  # Grafana's grid; all but the first in pixels
HEADER = 76
LEFT, RIGHT, TOP, BOTTOM = 62, 12, 34, 62  # around a panel's lines
COLORS = ("#73bf69", "#f2cc0c", "#5794f2", "#ff780a", "#f2495c", "#b877d9", "#37872d", "#8ab8ff")
LEGEND_LINES = 2
TIME_WIDTH = 80
STYLE = """
  text { font-family: Inter, Helvetica, Arial, sans-serif; font-size: 12px; fill: #9fa7b3 }
  .title { font-size: 14px; font-weight: 500; fill: #d8d9da }
  .head { font-size: 22px; font-weight: 500; fill: #ffffff }
  .panel { fill: #181b1f; stroke: #2c3235 }
  .grid { stroke: #2c3235; stroke-width: 1 }
  .line { fill: none; stroke-width: 1.5; stroke-linejoin: round }
"""


@dataclass(frozen=True)
class Line:
    """One line of a panel: its name, and points of time in seconds and value."""

    name: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Drawing:
    """A panel and its lines."""

    panel: Panel
    lines: Sequence[Line]


def format_value(value: float, unit: str) -> str:
    """Format a value with its unit as Grafana does."""
    if unit == "percentunit":
        return f"{value * 100:.4g}%"
    if unit == "s" and 0 < abs(value) < 1:
        return _scale(value * 1e6, 1000.0, ("µs", "ms"))
    if unit == "bytes":
        return _scale(value, 1024.0, ("B", "KiB", "MiB", "GiB"))
    if unit == "Bps":
        return _scale(value, 1000.0, ("B/s", "kB/s", "MB/s"))
    suffix = {"reqps": " req/s", "cps": " c/s", "s": " s", "short": ""}
    shown = suffix.get(unit, f" {unit.removeprefix('suffix:').strip()}")
    return _scale(value, 1000.0, ("", "K", "Mil", "Bil")).strip() + shown


def _scale(value: float, factor: float, names: Sequence[str]) -> str:
    power = 0
    while abs(value) >= factor and power < len(names) - 1:
        value, power = value / factor, power + 1
    return f"{value:.3g} {names[power]}"


def choose_top(lines: Sequence[Line], unit: str) -> float:
    """Return a round number that no point exceeds; the axis starts at 0."""
    highest = max((value for line in lines for _, value in line.points), default=0.0)
    if highest <= 0:
        return 1.0
    if unit == "bytes":
        return 2.0 ** math.ceil(math.log2(highest))
    power = 10.0 ** math.floor(math.log10(highest))
    return next(power * step for step in (1, 2, 2.5, 5, 10) if power * step >= highest * 0.999)


def draw(title: str, note: str, drawings: Sequence[Drawing], start: float, end: float) -> str:
    """Return the SVG of all panels. start, end: of the time axis, in seconds since 1970."""
    bottom = max(drawing.panel.place.y + drawing.panel.place.h for drawing in drawings)
    width, height = COLUMNS * COLUMN + 2 * GAP, HEADER + bottom * (ROW + GAP) + GAP
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'width="{width}" height="{height}">'
        ),
        f"<style>{STYLE}</style>",
        f'<rect width="{width}" height="{height}" fill="#111217"/>',
        f'<text class="head" x="16" y="36">{escape(title)}</text>',
        f'<text x="16" y="60">{escape(note)}</text>',
    ]
    for drawing in drawings:
        parts.extend(draw_panel(drawing, start, end))
    return "\n".join((*parts, "</svg>\n"))


def draw_panel(drawing: Drawing, start: float, end: float) -> list[str]:
    """Return the parts of one panel, or of a row's heading."""
    panel = drawing.panel
    x, y = GAP + panel.place.x * COLUMN, HEADER + panel.place.y * (ROW + GAP)
    if not panel.queries:
        return [f'<text class="title" x="{x + 8}" y="{y + 24}">⌄ {escape(panel.title)}</text>']
    width = panel.place.w * COLUMN - GAP
    height = panel.place.h * (ROW + GAP) - GAP
    parts = [
        f'<rect class="panel" x="{x}" y="{y}" width="{width}" height="{height}" rx="2"/>',
        f'<text class="title" x="{x + 10}" y="{y + 22}">{escape(panel.title)}</text>',
    ]
    plot = Plot(
        *(x + LEFT, y + TOP, width - LEFT - RIGHT, height - TOP - BOTTOM),
        *(start, end, choose_top(drawing.lines, panel.unit)),
    )
    parts.extend(plot.draw_axes(panel.unit))
    for number, line in enumerate(drawing.lines):
        parts.append(plot.draw_line(line, COLORS[number % len(COLORS)]))
    return [*parts, *draw_legend(drawing.lines, x + 12, y + height - 28, width - 24)]


@dataclass(frozen=True)
class Plot:
    """The area of a panel's lines in pixels, and the limits of its axes."""

    x: float
    y: float
    width: float
    height: float
    start: float
    end: float
    top: float

    def draw_axes(self, unit: str) -> list[str]:
        """Return five horizontal lines with their values, and as many times as fit."""
        parts = []
        for step in range(5):
            y = self.y + self.height * (1 - step / 4)
            value = format_value(self.top * step / 4, unit)
            parts += [
                f'<path class="grid" d="M{self.x:.1f} {y:.1f}h{self.width:.1f}"/>',
                f'<text x="{self.x - 6:.1f}" y="{y + 4:.1f}" text-anchor="end">{value}</text>',
            ]
        times = max(2, int(self.width // TIME_WIDTH))
        for step in range(times):
            moment = self.start + (self.end - self.start) * (step + 0.5) / times
            shown = dt.datetime.fromtimestamp(moment, dt.UTC).strftime("%H:%M:%S")
            x, y = self.x + self.width * (step + 0.5) / times, self.y + self.height + 16
            parts.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="middle">{shown}</text>')
        return parts

    def draw_line(self, line: Line, color: str) -> str:
        """Return a line, with a light fill below it."""
        places = [
            (
                self.x + self.width * (moment - self.start) / (self.end - self.start),
                self.y + self.height * (1 - min(value, self.top) / self.top),
            )
            for moment, value in line.points
        ]
        if not places:
            return ""
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
        floor = self.y + self.height
        fill = f"M{places[0][0]:.1f} {floor:.1f}L{path}L{places[-1][0]:.1f} {floor:.1f}Z"
        return (
            f'<path d="{fill}" fill="{color}" fill-opacity="0.08"/>'
            f'<path class="line" d="M{path}" stroke="{color}"/>'
        )


def draw_legend(lines: Sequence[Line], x: float, y: float, width: float) -> list[str]:
    """Return as many names of lines as fit, each next to its color."""
    parts = []
    left, rows = x, 1
    for number, line in enumerate(lines):
        length = 20 + 6.2 * len(line.name)
        if x > left and x + length > left + width:
            x, y, rows = left, y + 18, rows + 1
        if rows > LEGEND_LINES:
            break
        parts += [
            (
                f'<rect x="{x:.1f}" y="{y - 6:.1f}" width="12" height="3" '
                f'fill="{COLORS[number % len(COLORS)]}"/>'
            ),
            f'<text x="{x + 16:.1f}" y="{y:.1f}">{escape(line.name)}</text>',
        ]
        x += length + 8
    return parts
