"""Draws the state diagrams of the pages as SVG, for the site: no script, no request to other hosts.

Each state is a box that lists its markers; from each marker a wire leads to the state that follows.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable

ARROW = re.compile(r"(\S+) --> (\S+?)(?: : (.*))?")
NAME = re.compile(r'state "(.*)" as (\S+)')
ESCAPE = re.compile(r"#(\w+);")
BLOCK = re.compile(r"^```mermaid\n(.*?)^```", re.DOTALL | re.MULTILINE)
START = "[*]"
# Lengths in pixels; a phone shows some 350.
CHARACTER, ROW, GAP, MARGIN, LANE = 7.3, 19, 16, 10, 15
STYLE = "font: 12px ui-monospace, monospace; max-width: 100%; height: auto"


class Drawing:
    """A diagram's states, in the order in which they are named, with their arrows."""

    def __init__(self, diagram: str) -> None:
        self.names: dict[str, str] = {}
        self.arrows: dict[str, list[tuple[str, str]]] = {}
        for line in map(str.strip, diagram.splitlines()):
            if named := NAME.fullmatch(line):
                self.names[named[2]] = named[1]
            elif arrow := ARROW.fullmatch(line):
                start, end, label = arrow.groups()
                self.arrows.setdefault(start, []).append((end, _unescape(label or "")))
        self._first = [end for end, _ in self.arrows.pop(START, [])]
        ends = [end for arrows in self.arrows.values() for end, _ in arrows]
        self.states = list(dict.fromkeys([*self._first, *self.arrows, *ends]))
        texts = [self.names.get(state, state) for state in self.states]
        texts += [label for arrows in self.arrows.values() for _, label in arrows]
        self.width = round(max(map(len, texts)) * CHARACTER) + 2 * MARGIN

    def tops(self) -> dict[str, int]:
        """Return where each state's box begins."""
        tops, y = {}, GAP + MARGIN
        for state in self.states:
            tops[state] = y
            y += self._height(state) + GAP
        return tops

    def _height(self, state: str) -> int:
        return ROW * (1 + len(self.arrows.get(state, ()))) + MARGIN // 2

    def svg(self) -> str:
        """Return the drawing as an element of HTML."""
        tops, right = self.tops(), MARGIN + self.width
        ports = {state: self._ports(state, tops) for state in self.states}
        targets = [state for state in self.states if ports[state]]
        lanes = {state: right + LANE * (2 + n) for n, state in enumerate(targets)}
        height = max(tops[state] + self._height(state) for state in self.states) + MARGIN
        width = right + LANE * (3 + len(targets))
        parts = [
            f'<path d="M{2 * MARGIN} 4V{tops[state]}m-4 -6l4 6l4 -6"/>' for state in self._first
        ]
        for state in self.states:
            parts += self._box(state, tops[state])
        for target, lane in lanes.items():
            parts.append(_wire(right, lane, tops[target] + ROW // 2, ports[target]))
        label = html.escape(", ".join(self.names.get(state, state) for state in self.states))
        return (
            f'<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
            f'aria-label="States: {label}" fill="none" stroke="currentColor" style="{STYLE}">'
            f"{''.join(parts)}</svg>"
        )

    def _ports(self, target: str, tops: dict[str, int]) -> list[int]:
        """Return the heights of the markers that lead to a state."""
        return [
            tops[state] + ROW * (number + 1) + ROW // 2
            for state, arrows in self.arrows.items()
            for number, (end, _) in enumerate(arrows)
            if end == target
        ]

    def _box(self, state: str, top: int) -> Iterable[str]:
        yield (
            f'<rect x="{MARGIN}" y="{top}" width="{self.width}" height="{self._height(state)}" '
            'rx="4"/>'
        )
        yield _text(self.names.get(state, state), top, "font-weight: bold")
        for number, (_, label) in enumerate(self.arrows.get(state, ())):
            yield _text(label, top + ROW * (number + 1))


def _wire(right: int, lane: int, end: int, ports: list[int]) -> str:
    """Return the way from a box's markers along a lane to a state, with an arrow head."""
    starts = "".join(f"M{right} {port}H{lane}" for port in ports)
    heights = [*ports, end]
    way = f"M{lane} {min(heights)}V{max(heights)}M{lane} {end}H{right}m6 -4l-6 4l6 4"
    return f'<path d="{starts}{way}" opacity="0.75"/>'


def _text(text: str, top: int, style: str = "") -> str:
    return (
        f'<text x="{2 * MARGIN}" y="{top + 14}" fill="currentColor" stroke="none" '
        f'style="{style}">{html.escape(text)}</text>'
    )


def _unescape(label: str) -> str:
    """Return a label's text; Mermaid's escapes are numbers or names."""

    def replace(found: re.Match[str]) -> str:
        name = found[1]
        return chr(int(name)) if name.isdecimal() else html.unescape(f"&{name};")

    return ESCAPE.sub(replace, label)


def draw_all(markdown: str) -> str:
    """Return a page with drawings in place of its diagrams."""
    return BLOCK.sub(lambda block: Drawing(block[1]).svg(), markdown)
