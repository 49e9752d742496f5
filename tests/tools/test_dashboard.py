"""The picture of the dashboard: its queries, its numbers, its lines; no Prometheus is needed."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from itertools import islice

import pytest

from tools.dashboard.drawing import Drawing, Line, choose_top, draw, format_value
from tools.dashboard.load import LONG, read_requests, vary
from tools.dashboard.panels import DASHBOARD, Panel, Place, Query, read_panels

PANELS = read_panels("15s")
WHOLE = json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]


def test_every_panel_is_read_and_no_variable_is_left() -> None:
    assert [panel.title for panel in PANELS] == [panel["title"] for panel in WHOLE]
    queries = [query for panel in PANELS for query in panel.queries]
    assert len(queries) == sum(len(panel.get("targets", ())) for panel in WHOLE)
    assert not [query for query in queries if "$" in query.expression]
    assert any("[15s]" in query.expression for query in queries)


@pytest.mark.parametrize(
    ("legend", "labels", "name"),
    [
        ("started", {"a": "1"}, "started"),
        ("{{instance}} {{ state }}", {"instance": "w:1", "state": "serving"}, "w:1 serving"),
        ("{{parser}}", {}, ""),
    ],
)
def test_a_series_is_named_by_its_labels(legend: str, labels: dict[str, str], name: str) -> None:
    assert Query("", legend).name_series(labels) == name


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (0.0, "s", "0 s"),
        (0.0000025, "s", "2.5 µs"),
        (0.25, "s", "250 ms"),
        (2.5, "s", "2.5 s"),
        (0.125, "percentunit", "12.5%"),
        (1500, "suffix: tok/s", "1.5 K tok/s"),
        (12, "reqps", "12 req/s"),
        (268435456, "bytes", "256 MiB"),
        (20000, "Bps", "20 kB/s"),
        (3, "short", "3"),
    ],
)
def test_values_are_shown_with_their_unit(value: float, unit: str, shown: str) -> None:
    assert format_value(value, unit) == shown


@pytest.mark.parametrize(
    ("highest", "unit", "top"),
    [
        (0.0, "short", 1.0),
        (7.0, "short", 10.0),
        (1.8, "short", 2.0),
        (0.21, "s", 0.25),
        (2e8, "bytes", 2**28),
    ],
)
def test_axes_end_at_a_round_number(highest: float, unit: str, top: float) -> None:
    assert choose_top([Line("a", [(0, highest)]), Line("b", [])], unit) == top


def test_lines_stay_in_their_panel_and_names_are_text() -> None:
    panel = Panel("A < B", Place(6, 1, 6, 8), "short", (Query("x", "y"),))
    lines = [Line("<b>&", [(0, 0.0), (5, 4.0), (10, 10.0)])]
    svg = draw(
        "T", "n", [Drawing(Panel("R", Place(0, 0, 24, 1)), []), Drawing(panel, lines)], 0, 10
    )
    root = ET.fromstring(svg)  # noqa: S314 - made right here
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"A < B", "<b>&", "10", "7.5"} <= set(texts)
    box = root.find(".//{*}rect[@class='panel']")
    path = root.find(".//{*}path[@class='line']")
    assert box is not None
    assert path is not None
    left, top, width, height = (float(box.attrib[key]) for key in ("x", "y", "width", "height"))
    points = [
        tuple(map(float, pair)) for pair in re.findall(r"([\d.]+) ([\d.]+)", path.attrib["d"])
    ]
    assert len(points) == 3
    assert all(left < x < left + width and top < y < top + height for x, y in points)
    assert points[0][1] > points[1][1] > points[2][1]


def test_the_load_is_of_many_kinds() -> None:
    requests = read_requests("m")
    sent = list(islice(vary(requests), 200))
    assert any(leaves for _, leaves in sent)
    assert {request.get("stream", False) for request, _ in sent} == {True, False}
    assert any("tools" in request for request, _ in sent)
    assert any("max_tokens" in request for request, _ in sent)
    assert any(request["messages"][0]["content"] == LONG for request, _ in sent)
    assert all(request["model"] == "m" for request, _ in sent)
