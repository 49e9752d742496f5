"""The alert rules: their names, their pages, and when they fire, by Prometheus's own promtool."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from backedge.frontend.metrics import FrontendMetrics, LocalParsing
from backedge.frontend.turns.turn_store import TurnStore
from backedge.tokenization.prompt_cache import PromptCache
from backedge.worker.metrics import WorkerMetrics
from prometheus_client import CollectorRegistry

from tests.deploy.manifests import KUBERNETES, ROOT, render
from tests.machine import needs, require

RESOURCE = yaml.safe_load((KUBERNETES / "monitoring" / "rules.yaml").read_text(encoding="utf-8"))
RULES = [rule for group in RESOURCE["spec"]["groups"] for rule in group["rules"]]
PAGE = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
RUNBOOKS = "docs/metrics.md"
# Dynamo's own, seen on the /metrics of version 1.6.1.
DYNAMOS = {"dynamo_frontend_requests_total", "dynamo_component_requests_total"}


def list_names() -> set[str]:
    """Return the names of all samples of ours."""
    registry = CollectorRegistry()
    registry.register(WorkerMetrics())
    registry.register(FrontendMetrics(PromptCache(1), None, TurnStore(0), LocalParsing()))
    return {sample.name for family in registry.collect() for sample in family.samples}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_a_rule_asks_for_metrics_that_there_are_and_has_a_runbook(rule: dict[str, Any]) -> None:
    asked = set(re.findall(r"\b(?:backedge|dynamo)_[a-z_]+(?=[\[{) ]|$)", rule["expr"]))
    asked -= {"dynamo_endpoint", "dynamo_component"}  # labels
    assert asked
    assert asked <= list_names() | DYNAMOS
    assert rule["labels"]["severity"] in {"info", "warning", "critical"}
    assert rule["annotations"]["runbook_url"] == f"{RUNBOOKS}#{rule['alert'].lower()}"
    assert rule["annotations"]["summary"]


def test_every_alert_has_a_paragraph_and_every_paragraph_an_alert() -> None:
    assert re.findall(r"^### (Backedge\w+)$", PAGE, re.MULTILINE) == [
        rule["alert"] for rule in RULES
    ]


@needs("kubectl")
@pytest.mark.parametrize("page", [RUNBOOKS, "https://docs.your.host/metrics/"])
def test_one_line_says_where_the_runbooks_are(page: str, tmp_path: Path) -> None:
    folder = shutil.copytree(ROOT / "deploy", tmp_path / "deploy") / "kubernetes" / "monitoring"
    kustomization = folder / "kustomization.yaml"
    text = kustomization.read_text(encoding="utf-8")
    assert text.count(f"page={RUNBOOKS}\n") == 1
    kustomization.write_text(text.replace(f"page={RUNBOOKS}", f"page={page}"), encoding="utf-8")
    resources = render(folder)
    assert sorted(found["kind"] for found in resources) == ["ConfigMap", "PrometheusRule"]
    (found,) = (found for found in resources if found["kind"] == "PrometheusRule")
    rules = [rule for group in found["spec"]["groups"] for rule in group["rules"]]
    links = [rule["annotations"]["runbook_url"] for rule in rules]
    assert links == [f"{page}#{rule['alert'].lower()}" for rule in RULES]


# By alert: series that make it fire, and series that do not. A value a minute.
POD = 'namespace="prod",pod="worker-0"'
BUCKET = f'backedge_chunk_wait_seconds_bucket{{{POD},kind="content",le='
FRONTEND = 'dynamo_frontend_requests_total{namespace="prod",model="m",error_type='
COMPONENT = 'dynamo_component_requests_total{namespace="prod",dynamo_endpoint="generate"'
Series = dict[str, str]
CASES: dict[str, tuple[Series, Series]] = {
    "BackedgeParserErrors": (
        {f'backedge_parser_errors_total{{{POD},parser="hermes"}}': "0x20 1x100"},
        {f'backedge_parser_errors_total{{{POD},parser="hermes"}}': "7x120"},
    ),
    "BackedgeCallsRegenerated": (
        {
            f'backedge_calls_regenerated_total{{{POD},parser="hermes",reason="schema"}}': "0+2x120",
            f'backedge_tool_calls_total{{{POD},parser="hermes",outcome="complete"}}': "0+10x120",
        },
        {
            f'backedge_calls_regenerated_total{{{POD},parser="hermes",reason="schema"}}': "0+1x120",
            f'backedge_tool_calls_total{{{POD},parser="hermes",outcome="complete"}}': "0+50x120",
        },
    ),
    "BackedgeCallMarkupShown": (
        {
            f'backedge_call_markup_shown_total{{{POD},parser="hermes"}}': "0+3x120",
            f'backedge_requests_total{{{POD},outcome="finished"}}': "0+100x120",
        },
        {
            f'backedge_call_markup_shown_total{{{POD},parser="hermes"}}': "0+1x120",
            f'backedge_requests_total{{{POD},outcome="finished"}}': "0+100x120",
        },
    ),
    "BackedgeRequestsFail": (
        {
            f'backedge_requests_total{{{POD},outcome="failed"}}': "0+2x120",
            f'backedge_requests_total{{{POD},outcome="finished"}}': "0+98x120",
        },
        {
            f'backedge_requests_total{{{POD},outcome="failed"}}': "0+1x120",
            f'backedge_requests_total{{{POD},outcome="finished"}}': "0+199x120",
        },
    ),
    "BackedgeStreamsStandStill": (
        {f"backedge_oldest_wait_seconds{{{POD}}}": "0+60x120"},
        {f"backedge_oldest_wait_seconds{{{POD}}}": "1x120"},
    ),
    "BackedgeChunksLate": (
        {
            BUCKET + '"0.1"}': "0+50x120",
            BUCKET + '"1.0"}': "0+100x120",
            BUCKET + '"+Inf"}': "0+100x120",
        },
        {
            BUCKET + '"0.1"}': "0+99x120",
            BUCKET + '"1.0"}': "0+100x120",
            BUCKET + '"+Inf"}': "0+100x120",
        },
    ),
    "BackedgePoolDeaths": (
        {
            f"backedge_pool_deadline_kills_total{{{POD}}}": "0x20 1x100",
            f"backedge_pool_deaths_total{{{POD}}}": "0x120",
        },
        {
            f"backedge_pool_deadline_kills_total{{{POD}}}": "3x120",
            f"backedge_pool_deaths_total{{{POD}}}": "2x120",
        },
    ),
    "BackedgePoolIncomplete": (
        {f'backedge_pool_processes{{{POD},state="starting"}}': "1x120"},
        {
            f'backedge_pool_processes{{{POD},state="starting"}}': "0x120",
            f'backedge_pool_processes{{{POD},state="serving"}}': "4x120",
        },
    ),
    "BackedgePoolQueue": (
        {
            f"backedge_pool_depth{{{POD}}}": "800x120",
            f"backedge_requests_in_flight{{{POD}}}": "10x120",
        },
        {
            f"backedge_pool_depth{{{POD}}}": "40x120",
            f"backedge_requests_in_flight{{{POD}}}": "10x120",
        },
    ),
    "BackedgeRequestsRefused": (
        {FRONTEND + '""}': "0+90x120", FRONTEND + '"validation"}': "0+10x120"},
        {FRONTEND + '""}': "0+99x120", FRONTEND + '"cancelled"}': "0+20x120"},
    ),
    "BackedgeRecordingsLost": (
        {f'backedge_recordings_total{{{POD},result="unwritable"}}': "0x20 3x100"},
        {f'backedge_recordings_total{{{POD},result="written"}}': "0+3x120"},
    ),
    "BackedgeFleetMixed": (
        {
            f"backedge_requests_started_total{{{POD}}}": "0+50x120",
            COMPONENT + ',dynamo_component="backend"}': "0+100x120",
        },
        {
            f"backedge_requests_started_total{{{POD}}}": "0+100x120",
            COMPONENT + ',dynamo_component="backend"}': "0+100x120",
            COMPONENT + ',dynamo_component="prefill"}': "0+100x120",
        },
    ),
}
# When it is looked whether they fire: behind the longest `for`, and within 15 minutes of a step.
MINUTES = dict.fromkeys(
    ("BackedgeParserErrors", "BackedgePoolDeaths", "BackedgeRecordingsLost"), 30
)
LATEST = 100


def build_tests(rules: Path) -> dict[str, Any]:
    """Return promtool's test file: each alert alone with the series that make it fire, or not."""
    tests = [
        {
            "interval": "1m",
            "input_series": [{"series": name, "values": values} for name, values in case.items()],
            "promql_expr_test": [
                {
                    "expr": f'count(ALERTS{{alertname="{alert}",alertstate="firing"}})',
                    "eval_time": f"{MINUTES.get(alert, LATEST)}m",
                    "exp_samples": [{"labels": "{}", "value": 1}] if fires else [],
                }
            ],
        }
        for alert, cases in CASES.items()
        for case, fires in zip(cases, (True, False), strict=True)
    ]
    return {"rule_files": [str(rules)], "evaluation_interval": "1m", "tests": tests}


def promtool(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [require("promtool"), *arguments], capture_output=True, text=True, check=False
    )


@needs("promtool")
def test_each_alert_fires_when_it_should_and_only_then(tmp_path: Path) -> None:
    assert list(CASES) == [rule["alert"] for rule in RULES]
    rules, tests = tmp_path / "rules.yaml", tmp_path / "tests.yaml"
    rules.write_text(yaml.safe_dump(RESOURCE["spec"]), encoding="utf-8")
    tests.write_text(yaml.safe_dump(build_tests(rules)), encoding="utf-8")
    checked = promtool("check", "rules", str(rules))
    assert checked.returncode == 0, checked.stdout + checked.stderr
    tested = promtool("test", "rules", str(tests))
    assert tested.returncode == 0, tested.stdout + tested.stderr
