"""The site's drawings show each state and each marker of a format, with a wire."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import pytest
from backedge.parsers.format import Format
from backedge.parsers.formats.catalog import FORMATS
from backedge.testing.diagram import draw_format

from tools.state_drawing import CHARACTER, Drawing, draw_all

DIAGRAM = """\
stateDiagram-v2
    state "the end" as END
    [*] --> FIRST
    FIRST --> END : #lt;a#58;b#gt;
"""


@pytest.mark.parametrize("format_", FORMATS, ids=lambda format_: format_.name)
def test_every_marker_has_a_wire(format_: Format) -> None:
    diagram = draw_format(format_)
    drawn = ET.fromstring(Drawing(diagram).svg())  # noqa: S314 - our own
    texts = [text.text or "" for text in drawn.iter("text")]
    boxes = list(drawn.iter("rect"))
    arrows = diagram.count(" --> ") - diagram.count("[*] --> ")
    assert len(texts) == len(boxes) + arrows
    ways = "".join(path.get("d", "") for path in drawn.iter("path"))
    assert len(re.findall(r"M\d+ \d+H\d+(?=M)", ways)) == arrows
    width = float(boxes[0].get("width", 0))
    assert max(map(len, texts)) * CHARACTER < width < float(drawn.get("width", 0))
    assert drawn.get("viewBox") == f"0 0 {drawn.get('width')} {drawn.get('height')}"


def test_labels_are_readable() -> None:
    page = draw_all(f"Before.\n\n```mermaid\n{DIAGRAM}```\n\nAfter.")
    before, _, drawn = page.partition("<svg")
    drawn, _, after = drawn.partition("</svg>")
    assert (before, after) == ("Before.\n\n", "\n\nAfter.")
    assert re.findall(r">([^<>]+)</text>", drawn) == ["FIRST", "&lt;a:b&gt;", "the end"]
