"""Runs a real Prometheus on loopback while a context is active, for the dashboard's queries."""

from __future__ import annotations

import json
import math
import subprocess
import time
import urllib.parse
from pathlib import Path
from typing import Any, Self

from tools.machine import find
from tools.stack import LOOPBACK, ROOT, StackError, fetch, free_port

START_S = 30.0


DASHBOARD = ROOT / "deploy" / "grafana" / "backedge.json"


def read_queries(rate_interval: str) -> list[str]:
    """Return the expressions of the dashboard's panels, for all instances.

    rate_interval: the window of rates, such as "15s"; four scrapes or more.
    """
    panels = json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]
    expressions = [target["expr"] for panel in panels for target in panel.get("targets", ())]
    return [
        expression.replace("$__rate_interval", rate_interval).replace("$instance", ".*")
        for expression in expressions
    ]


class Prometheus:
    """Scrapes `targets` once a second into `folder`.

    targets: "host:port" -> its labels. rules: the folder's rule file, if any.
    """

    def __init__(
        self, folder: Path, targets: dict[str, dict[str, str]], rules: str | None = None
    ) -> None:
        self.folder = folder
        self.targets = targets
        self.rules = rules
        self.url = f"http://{LOOPBACK}:{free_port()}"

    def __enter__(self) -> Self:
        command = find("prometheus")
        if command is None:
            raise StackError("`prometheus` is missing; tools/setup unpacks Debian's package")
        self.folder.mkdir(parents=True, exist_ok=True)
        config = self.folder / "prometheus.json"
        config.write_text(json.dumps(self._build_config()), encoding="utf-8")
        log = self.folder / "prometheus.log"
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [
                    command,
                    f"--config.file={config}",
                    f"--storage.tsdb.path={self.folder / 'data'}",
                    f"--web.listen-address={self.url.removeprefix('http://')}",
                ],
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        deadline = time.monotonic() + START_S
        while "Ready" not in fetch(self.url + "/-/ready"):
            if self._process.poll() is not None or time.monotonic() > deadline:
                self._stop()
                raise StackError(f"Prometheus did not start:\n{log.read_text(errors='replace')}")
            time.sleep(0.1)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def _stop(self) -> None:
        self._process.kill()
        self._process.wait()

    def _build_config(self) -> dict[str, Any]:
        # JSON is also YAML.
        scraped = [
            {"targets": [target], "labels": labels} for target, labels in self.targets.items()
        ]
        return {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [self.rules] if self.rules else [],
            "scrape_configs": [{"job_name": "backedge", "static_configs": scraped}],
        }

    def ask(self, path: str, **parameters: str | float) -> Any:
        """Return the data of an HTTP API answer. Raises `StackError` if it is an error."""
        text = fetch(f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(parameters)}")
        if not text:
            raise StackError(f"Prometheus rejected {path} with {parameters}")
        return json.loads(text)["data"]

    def has_values(self, expression: str, start: float) -> bool:
        """Whether an expression has had a finite value since `start`, in seconds since 1970.

        Raises `StackError` for an invalid expression.
        """
        result = self.ask("query_range", query=expression, start=start, end=time.time(), step=1.0)
        return any(
            math.isfinite(float(value))
            for found in result["result"]
            for _, value in found["values"]
        )

    def list_up(self) -> set[str]:
        """Return the targets whose last scrape succeeded."""
        active = self.ask("targets", state="active")["activeTargets"]
        return {found["labels"]["instance"] for found in active if found["health"] == "up"}
