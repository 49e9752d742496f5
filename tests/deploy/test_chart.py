"""The Helm chart: rendered by Helm's own code, the base of the overlays and its values."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
import yaml

from tests.deploy.manifests import KUBERNETES, ROOT, find_graph, list_components

CHART = ROOT / "deploy" / "helm"
VALUES: dict[str, Any] = {
    "image": "registry.example.com/backedge-vllm:1.6.1-backedge0.2.0",
    "model": "some/model",
    "toolCallParser": "qwen3_coder",
    "reasoningParser": "auto",
    "frontends": 3,
    "workers": 5,
}


def render(values: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """Return the chart's resources for a release of this name."""
    helm = pytest.importorskip("helm_python", reason="Helm's code is in the extra `test`")
    with helm.Chart.load(str(CHART)) as chart:
        rendered = chart.render(values, name=name, namespace="my-models")
    return [yaml.safe_load(text) for text in rendered.values()]


def test_with_its_defaults_it_is_the_base_of_the_overlays() -> None:
    base = [KUBERNETES / "base" / name for name in ("graph.yaml", "network.yaml")]
    assert render({}, "backedge") == [yaml.safe_load(path.read_text()) for path in base]


def test_each_value_and_the_name_have_their_places() -> None:
    resources = render(VALUES, "mine")
    assert {resource["metadata"]["name"] for resource in resources} == {"mine"}
    graph = find_graph(resources)
    variables = {each["name"]: each["value"] for each in graph["spec"]["env"]}
    assert variables == {
        "MODEL": VALUES["model"],
        "TOOL_CALL_PARSER": VALUES["toolCallParser"],
        "REASONING_PARSER": VALUES["reasoningParser"],
        "HOME": "/tmp",  # noqa: S108 - the manifest's
    }
    components = list_components(graph)
    assert [components[name]["replicas"] for name in ("Frontend", "worker")] == [3, 5]
    containers = [
        container["image"]
        for each in components.values()
        for container in each["podTemplate"]["spec"]["containers"]
    ]
    assert containers == [VALUES["image"]] * 2


def test_it_has_the_packages_version_and_a_default_for_each_value() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert {chart["version"], chart["appVersion"]} == {project["version"]}
    assert yaml.safe_load((CHART / "values.yaml").read_text()).keys() == VALUES.keys()
