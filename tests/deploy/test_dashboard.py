"""The dashboard and docs/metrics.md have every metric, and no other."""

import json
import re
from pathlib import Path

import pytest

from tests.worker.test_metrics import LABELS, families

ROOT = Path(__file__).parents[2]
DASHBOARD = json.loads((ROOT / "deploy" / "grafana" / "backedge.json").read_text(encoding="utf-8"))
PAGE = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
NAME = re.compile(r"backedge_[a-z_]+")


def names():
    """Return the names as queries use them: a histogram's without those of its samples."""
    return {family.name + ("_total" if family.type == "counter" else "") for family in families()}


def test_the_dashboard_has_every_metric_and_no_other():
    known = {sample.name for family in families() for sample in family.samples}
    asked = {
        name
        for panel in PANELS
        for target in panel["targets"]
        for name in NAME.findall(target["expr"])
    }
    assert asked <= known
    assert {re.sub("_(bucket|sum|count)$", "", name) for name in asked} == names()


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel["title"])
def test_every_panel_has_a_unit_and_says_what_to_do(panel):
    assert panel["fieldConfig"]["defaults"]["unit"]
    assert re.search(r"\bIf\b", panel["description"])
    assert panel["datasource"]["uid"] == "${datasource}"


def test_panels_do_not_overlap():
    places = [panel["gridPos"] for panel in DASHBOARD["panels"]]
    cells = [
        (place["x"] + x, place["y"] + y)
        for place in places
        for x in range(place["w"])
        for y in range(place["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(places)


def test_the_page_has_every_metric_and_no_other():
    assert set(re.findall(r"^\| `(backedge_[a-z_]+)`", PAGE, re.MULTILINE)) == names()
    derived = {
        f"{name}{suffix}" for name in names() for suffix in ("", "_bucket", "_sum", "_count")
    }
    assert set(NAME.findall(PAGE)) <= derived


def test_the_page_names_every_value_of_the_labels():
    for label, values in LABELS.items():
        if label not in ("parser", "version", "le"):
            assert all(f"`{value}`" in PAGE for value in values), label
