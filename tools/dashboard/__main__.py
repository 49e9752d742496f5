"""`make dashboard`: runs a fleet under load with a real Prometheus, and draws the dashboard.

    python -m tools.dashboard --out build/dashboard.png

The picture is drawn from Prometheus's answers to the dashboard's queries; it is not a screenshot
of Grafana. PNG needs Chromium, SVG does not.
"""

from __future__ import annotations

import argparse
import functools
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tools.dashboard.drawing import Drawing, Line, draw
from tools.dashboard.load import Load
from tools.dashboard.panels import Panel, read_panels
from tools.dashboard.prometheus import Prometheus
from tools.machine import find
from tools.stack import MODEL_NAME, Process, Stack, StackError, worker_is_ready

PARSERS = ("--tool-call-parser", "hermes", "--reasoning-parser", "qwen3")
NATIVE = ("--postprocess-parsers", "native", "--postprocess-workers", "2")
ENGINE_MODEL = "tiny-vllm"
RATE_INTERVAL = "15s"
WARM_UP_S = 30.0  # the engine compiles
NOTE = (
    "Drawn by tools/dashboard from a real Prometheus's answers to the queries of "
    "deploy/grafana/backedge.json; not a screenshot of Grafana."
)


def main() -> None:
    """Run the fleet, and write the picture."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("dashboard.svg"))
    parser.add_argument("--seconds", type=float, default=180.0, help="length of the run")
    options = parser.parse_args()
    try:
        with tempfile.TemporaryDirectory(prefix="backedge-") as folder:
            picture = watch(Path(folder), options.seconds)
            write(picture, options.out, Path(folder))
    except StackError as error:
        sys.exit(f"dashboard: {error}")
    print(f"dashboard: {options.out}")


def watch(folder: Path, seconds: float) -> str:
    """Return the SVG of `seconds` of load."""
    with Stack(folder / "stack") as stack:
        paces = ("--tokens-per-second", "60"), ("--tokens-per-second", "200")
        recorded = ("--postprocess-record", str(folder / "recordings"))
        workers = [stack.replay(*PARSERS, *recorded, *pace, wait=False) for pace in paces]
        engine = stack.worker(
            "--vllm-processing",
            *PARSERS,
            *NATIVE,
            "--namespace",
            "engine",
            name=ENGINE_MODEL,
            wait=False,
        )
        frontend = stack.frontend(wait=False)
        for model in (MODEL_NAME, ENGINE_MODEL):
            stack.wait_for_model(frontend, model)
        for worker in (*workers, engine):
            worker.wait_for(functools.partial(worker_is_ready, worker.url))
        named = {"replay-0": workers[0], "replay-1": workers[1], "vllm-0": engine}
        targets = list_targets(frontend, named)
        with Prometheus(folder / "prometheus", targets) as prometheus:
            start = time.time() + WARM_UP_S
            end = start + seconds
            load = Load(frontend.url, [MODEL_NAME, MODEL_NAME, ENGINE_MODEL])
            load.run(lambda: time.time() > end, 2 * (WARM_UP_S + seconds))
            for error in load.errors:
                raise StackError(f"a request failed: {error!r}") from error
            drawings = collect(prometheus, start, end)
    shown = time.strftime("%Y-%m-%d", time.gmtime(start))
    return draw("Backedge", f"{NOTE} {shown}, UTC.", drawings, start, end)


def list_targets(frontend: Process, workers: dict[str, Process]) -> dict[str, dict[str, str]]:
    """Return Prometheus's targets, with the labels that a PodMonitor gives."""
    named = {"frontend-0": frontend, **workers}
    return {
        process.url.removeprefix("http://"): {"namespace": "demo", "pod": name}
        for name, process in named.items()
    }


def collect(prometheus: Prometheus, start: float, end: float) -> list[Drawing]:
    """Query every panel. start, end: in seconds since 1970."""
    step_s = max(1.0, (end - start) / 200)
    names = name_instances(prometheus)
    return [
        Drawing(panel, collect_lines(prometheus, panel, (start, end, step_s), names))
        for panel in read_panels(RATE_INTERVAL)
    ]


def collect_lines(
    prometheus: Prometheus, panel: Panel, window: tuple[float, float, float], names: dict[str, str]
) -> list[Line]:
    """Return a panel's lines. names: shown instead of addresses."""
    lines = []
    for query in panel.queries:
        for series in prometheus.query(query.expression, *window):
            name = query.name_series(series.labels)
            for address, shown in names.items():
                name = name.replace(address, shown)
            lines.append(Line(name, series.points))
    # The same order, and therefore the same colors, in every panel.
    return sorted(lines, key=lambda line: line.name)


def name_instances(prometheus: Prometheus) -> dict[str, str]:
    """Return the name of the pod by its address."""
    return {address: labels["pod"] for address, labels in prometheus.targets.items()}


def write(svg: str, out: Path, folder: Path) -> None:
    """Write the picture as SVG or, through Chromium, as PNG. Raises `StackError` without one."""
    out.parent.mkdir(parents=True, exist_ok=True)
    if out.suffix == ".svg":
        out.write_text(svg, encoding="utf-8")
        return
    browser = find("chromium")
    if browser is None:
        raise StackError("a PNG needs Chromium; choose a name that ends in .svg")
    page = folder / "page.html"
    page.write_text(f"<body style='margin:0'>{svg}", encoding="utf-8")
    (size,) = re.findall(r'^<svg.* width="(\d+)" height="(\d+)"', svg)
    subprocess.run(
        [
            *(browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
            *(f"--screenshot={out.resolve()}", f"--window-size={size[0]},{size[1]}", page.as_uri()),
        ],
        check=True,
        capture_output=True,
    )


if __name__ == "__main__":
    main()
