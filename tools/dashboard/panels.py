"""Reads the dashboard's panels and converts their queries for Prometheus."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DASHBOARD = Path(__file__).parent.parent.parent / "deploy" / "grafana" / "backedge.json"


@dataclass(frozen=True)
class Place:
    """A panel's position and size in Grafana's units: 24 columns, rows of 30 + 8 pixels."""

    x: int
    y: int
    w: int
    h: int


@dataclass(frozen=True)
class Query:
    """An expression, and the name of its series, with `{{label}}` for a label's value."""

    expression: str
    legend: str

    def name_series(self, labels: dict[str, str]) -> str:
        """Return the name of one series."""
        return re.sub(r"\{\{\s*(\w+)\s*\}\}", lambda found: labels.get(found[1], ""), self.legend)


@dataclass(frozen=True)
class Panel:
    """One panel; a row's heading has no queries. unit: Grafana's name of it."""

    title: str
    place: Place
    unit: str = ""
    queries: tuple[Query, ...] = ()


def read_panels(rate_interval: str, path: Path = DASHBOARD) -> list[Panel]:
    """Return the panels in order, for all instances.

    rate_interval: the window of rates, such as "15s"; four scrapes or more.
    """
    dashboard = json.loads(path.read_text(encoding="utf-8"))
    return [_read_panel(panel, rate_interval) for panel in dashboard["panels"]]


def _read_panel(panel: dict[str, Any], rate_interval: str) -> Panel:
    place = Place(**panel["gridPos"])
    if panel["type"] == "row":
        return Panel(panel["title"], place)
    queries = tuple(
        Query(
            target["expr"].replace("$__rate_interval", rate_interval).replace("$instance", ".*"),
            target["legendFormat"],
        )
        for target in panel["targets"]
    )
    return Panel(panel["title"], place, panel["fieldConfig"]["defaults"]["unit"], queries)
