"""The manifests: what Dynamo's operator and Kubernetes accept, and what every pod has."""

from __future__ import annotations

import copy
import importlib
import importlib.metadata
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.version import Version

from tests.deploy.manifests import (
    KUBERNETES,
    OVERLAYS,
    ROOT,
    each_overlay,
    find_faults,
    find_graph,
    list_components,
    list_containers,
    render,
)
from tests.machine import needs

BASE = yaml.safe_load((KUBERNETES / "base" / "graph.yaml").read_text(encoding="utf-8"))
(PROFILER,) = importlib.import_module("dynamo.profiler").__path__
TEMPLATES = sorted((Path(PROFILER) / "templates" / "dgd").rglob("*.yaml"))


@needs("kubectl")
@each_overlay
def test_dynamo_and_kubernetes_accept_it(folder: Path) -> None:
    assert find_faults(find_graph(render(folder))) == []


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: "-".join(path.parts[-2:]))
def test_the_schema_takes_dynamos_own_templates(path: Path) -> None:
    assert find_faults(yaml.safe_load(path.read_text(encoding="utf-8"))) == []


def test_the_base_is_whole() -> None:
    """Without kubectl: the only manifest that is no patch, with an image's tag."""
    graph = copy.deepcopy(BASE)
    for component in graph["spec"]["components"]:
        component["podTemplate"]["spec"]["containers"][0]["image"] += ":1.6.1"
    assert find_faults(graph) == []


def set_at(*path: str | int, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(graph: dict[str, Any]) -> None:
        place: Any = graph
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value

    return change


WORKER = ("spec", "components", 1)
POD = (*WORKER, "podTemplate", "spec")
MAIN = (*POD, "containers", 0)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (set_at("apiVersion", value="nvidia.com/v1alpha1"), "apiVersion"),
        (set_at("spec", "services", value={}), "services"),
        (set_at("spec", "backendFramework", value="llamacpp"), "llamacpp"),
        (set_at("spec", "env", value=[{"name": "A", "vale": "1"}]), "vale"),
        (set_at(*WORKER, "type", value="router"), "router"),
        (set_at(*WORKER, "replicas", value=-1), "-1"),
        (set_at(*WORKER, "name", value="frontend"), "unique"),
        (set_at(*WORKER, "name", value="the worker"), "the worker"),
        (set_at(*WORKER, "frontendSidecar", value="front"), "front"),
        (set_at(*WORKER, "sharedMemorySize", value="16 GB"), "16 GB"),
        (set_at(*MAIN, "name", value="engine"), "main"),
        (set_at(*MAIN, "image", value=""), "image"),
        (set_at(*MAIN, "image", value="backedge:latest"), "latest"),
        (set_at(*MAIN, "livenessProbe", "httpget", value={}), "httpget"),
        (set_at(*MAIN, "args", value=["--n", 4]), "4"),
        (set_at(*POD, "terminationGracePeriodSeconds", value="60"), "60"),
        (set_at(*POD, "containers", value={}), "containers"),
        (set_at(*POD, "securityContext", "runAsUser", value=True), "True"),
    ],
)
def test_a_fault_is_found(change: Callable[[dict[str, Any]], None], said: str) -> None:
    graph = copy.deepcopy(BASE)
    for component in graph["spec"]["components"]:
        component["podTemplate"]["spec"]["containers"][0]["image"] += ":1.6.1"
    change(graph)
    assert any(said in fault for fault in find_faults(graph))


@needs("kubectl")
@each_overlay
def test_pods_end_after_their_streams(folder: Path) -> None:
    """Workers: longer than all that Dynamo waits for when it is asked to end."""
    from dynamo.common.utils import graceful_shutdown

    for component in list_components(find_graph(render(folder))).values():
        pod = component["podTemplate"]["spec"]
        if component["type"] == "frontend":
            assert pod["terminationGracePeriodSeconds"] >= 300
            continue
        main = list_containers(component)["main"]
        variables = {entry["name"]: entry.get("value") for entry in main["env"]}
        served = float(variables[graceful_shutdown._GRACE_PERIOD_ENV])
        served += graceful_shutdown._DEFAULT_DRAIN_TIMEOUT_SECS
        served += graceful_shutdown._DEFAULT_CLEANUP_TIMEOUT_SECS
        assert pod["terminationGracePeriodSeconds"] > served


@needs("kubectl")
@each_overlay
def test_pods_are_probed_and_bounded_and_have_no_privileges(folder: Path) -> None:
    graph = find_graph(render(folder))
    variables = {entry["name"]: entry["value"] for entry in graph["spec"]["env"]}
    for component in list_components(graph).values():
        pod = component["podTemplate"]["spec"]
        assert pod["securityContext"]["runAsNonRoot"]
        assert pod["securityContext"]["runAsUser"] == 1000
        labels = component["podTemplate"]["metadata"]["labels"]
        for constraint in pod["topologySpreadConstraints"]:
            assert constraint["labelSelector"]["matchLabels"] == labels
        for container in (*pod["containers"], *pod.get("initContainers", ())):
            assert not container["securityContext"]["allowPrivilegeEscalation"]
            assert container["securityContext"]["capabilities"]["drop"] == ["ALL"]
            assert container["securityContext"]["readOnlyRootFilesystem"]
            mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
            assert mounts["scratch"] == variables["HOME"]
            assert container["resources"]["limits"]["memory"]
        assert {"name": "scratch", "emptyDir": {}} in pod["volumes"]
        for container in pod["containers"]:
            (port,) = container["ports"]
            assert container["livenessProbe"]["httpGet"] == {"path": "/live", "port": port["name"]}
            assert container["startupProbe"]["httpGet"]["path"] == "/live"
            assert container["readinessProbe"]["httpGet"]["path"] == "/health"


@needs("kubectl")
@each_overlay
def test_only_containers_that_fetch_a_model_get_the_hubs_token(folder: Path) -> None:
    for component in list_components(find_graph(render(folder))).values():
        pod = component["podTemplate"]["spec"]
        for container in (*pod["containers"], *pod.get("initContainers", ())):
            secrets = [
                entry["valueFrom"] for entry in container.get("env", ()) if "value" not in entry
            ]
            key = {"name": "hf-token-secret", "key": "HF_TOKEN", "optional": True}
            fetches = container in pod["containers"] or container["name"] == "engine"
            assert secrets == [{"secretKeyRef": key}] * fetches
            assert "envFrom" not in container


@needs("kubectl")
@each_overlay
def test_strangers_reach_frontends_only(folder: Path) -> None:
    resources = render(folder)
    (policy,) = (found["spec"] for found in resources if found["kind"] == "NetworkPolicy")
    assert policy["policyTypes"] == ["Ingress"]
    wanted = policy["podSelector"]["matchLabels"]
    own, anyone, monitoring = policy["ingress"]
    assert own == {"from": [{"podSelector": {"matchLabels": wanted}}]}
    assert anyone == {"ports": [{"port": "http"}]}
    assert monitoring["ports"] == [{"port": "system"}]
    for component in list_components(find_graph(resources)).values():
        assert wanted.items() <= component["podTemplate"]["metadata"]["labels"].items()
        for container in list_containers(component).values():
            is_frontend = "backedge.frontend" in container["command"]
            assert {port["name"] for port in container["ports"]} == {
                "http" if is_frontend else "system"
            }


VERSIONED = (
    *sorted((KUBERNETES / "components").rglob("*.yaml")),
    ROOT / "deploy" / "docker" / "Dockerfile",
    ROOT / "docs" / "deploy.md",
)


def test_one_version_of_backedge_is_named_everywhere() -> None:
    """And none that is older than what is here."""
    pattern = re.compile(r"backedge[=-]*(\d[\w.]*\w)|BACKEDGE_VERSION=(\S+)")
    named = {
        found[1] or found[2]
        for path in VERSIONED
        for found in pattern.finditer(path.read_text(encoding="utf-8"))
    }
    (version,) = named
    assert Version(version) >= Version(importlib.metadata.version("backedge"))


@needs("kubectl")
def test_the_podmonitor_scrapes_every_pod() -> None:
    (monitor,) = render(KUBERNETES / "monitoring" / "podmonitor")
    scraped = {endpoint["port"] for endpoint in monitor["spec"]["podMetricsEndpoints"]}
    wanted = monitor["spec"]["selector"]["matchLabels"].items()
    for folder in OVERLAYS:
        for component in list_components(find_graph(render(folder))).values():
            assert wanted <= component["podTemplate"]["metadata"]["labels"].items()
            for container in list_containers(component).values():
                assert {port["name"] for port in container["ports"]} <= scraped


@needs("kubectl")
def test_the_dashboard_is_a_configmap_that_grafana_finds() -> None:
    resources = render(KUBERNETES / "monitoring")
    (config,) = (found for found in resources if found["kind"] == "ConfigMap")
    assert config["metadata"]["labels"]["grafana_dashboard"] == "1"
    dashboard = (ROOT / "deploy" / "grafana" / "backedge.json").read_text(encoding="utf-8")
    assert config["data"] == {"backedge.json": dashboard}
