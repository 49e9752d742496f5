"""The plot of the parsers' costs: valid XML, a line per series, figures on logarithmic axes."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET

import pytest

from benchmarks.parsers import Cell, Claims, Report, Row, Settings
from benchmarks.plot import LOOKS, PANEL_HEIGHT, PANEL_WIDTH, PAPER, LogAxis, svg

SVG = "{http://www.w3.org/2000/svg}"
CELLS = {
    "ours": [Cell(100, us=2.5), Cell(1_000, us=2.5), Cell(10_000, us=2.5)],
    "vllm": [Cell(100, us=20.0), Cell(1_000, us=200.0), Cell(10_000, us=2_000.0, at_least=True)],
    "sglang": [
        Cell(100, us=30.0),
        Cell(1_000, us=300.0, at_least=True),
        Cell(10_000, us=300.0, at_least=True),
    ],
}
COLOURS = {parser: look.colour for parser, look in LOOKS.items()}


def report(*families: str, cells: dict[str, list[Cell]] = CELLS) -> Report:
    rows = [Row(family, parser, found) for family in families for parser, found in cells.items()]
    return Report(Settings([100, 1_000, 10_000], 3, 2.0), rows, {}, Claims())


def drawn(picture: str) -> ET.Element:
    return ET.fromstring(picture)  # noqa: S314 - XML that this test has made


def lines(root: ET.Element) -> dict[str, list[list[float]]]:
    """Return the points of one panel's lines, by system."""
    by_colour = {
        line.attrib["stroke"]: line.attrib["points"] for line in root.iter(SVG + "polyline")
    }
    return {
        parser: [
            [float(number) for number in point.split(",")] for point in by_colour[colour].split()
        ]
        for parser, colour in COLOURS.items()
        if colour in by_colour
    }


def test_one_line_per_series_in_valid_xml() -> None:
    root = drawn(svg(report("hermes", "a<b & c")))
    assert root.tag == SVG + "svg"
    assert len(list(root.iter(SVG + "polyline"))) == 2 * len(CELLS)
    assert {"hermes", "a<b & c"} <= {text.text for text in root.iter(SVG + "text")}


def test_a_decade_is_as_wide_everywhere() -> None:
    vllm = lines(drawn(svg(report("hermes"))))["vllm"]
    (x0, y0), (x1, y1), (x2, y2) = vllm
    assert x1 - x0 == pytest.approx(x2 - x1, abs=0.2)
    assert y0 - y1 == pytest.approx(y1 - y2, abs=0.2)
    assert 0 < x0 < x2 < PANEL_WIDTH
    assert PANEL_HEIGHT > y0 > y2 > 0


def test_equal_costs_are_level() -> None:
    assert len({y for _, y in lines(drawn(svg(report("hermes"))))["ours"]}) == 1


def test_a_line_ends_at_its_first_lower_bound_with_an_open_marker() -> None:
    root = drawn(svg(report("hermes")))
    assert {parser: len(points) for parser, points in lines(root).items()} == {
        "ours": 3,
        "vllm": 3,
        "sglang": 2,
    }
    opened = [
        path.attrib["stroke"]
        for path in root.iter(SVG + "path")
        if path.attrib.get("fill") == PAPER
    ]
    assert sorted(opened) == sorted([COLOURS["vllm"], COLOURS["sglang"]])


def test_without_a_right_figure_there_is_no_line() -> None:
    cells = {**CELLS, "sglang": [Cell(100, note="none"), Cell(1_000, us=3.0, note="wrong")]}
    assert set(lines(drawn(svg(report("hermes", cells=cells))))) == {"ours", "vllm"}


def test_axis() -> None:
    axis = LogAxis(10, 1_000, 200, 0)
    assert [axis(value) for value in (10, 100, 1_000)] == pytest.approx([200, 100, 0])
    assert axis(math.sqrt(1_000)) == pytest.approx(150)
    assert list(axis.decades()) == [10, 100, 1_000]
