"""The overlays one by one, and overlays that readers write."""

from __future__ import annotations

import copy
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from backedge.worker.sidecar import parse_address

from tests.deploy.manifests import (
    KUBERNETES,
    ROOT,
    RUNTIMES,
    find_engine,
    find_faults,
    find_graph,
    list_components,
    list_containers,
    render,
)
from tests.deploy.test_commands import parse_worker
from tests.machine import needs


def replicas(name: str) -> dict[str, int]:
    graph = find_graph(render(KUBERNETES / "overlays" / name))
    return {part: component["replicas"] for part, component in list_components(graph).items()}


@needs("kubectl")
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("aggregated", {"Frontend": 2, "worker": 2}),
        ("disaggregated", {"Frontend": 2, "decode": 2, "prefill": 2}),
        ("frontend-sidecar", {"worker": 2}),
        ("mixed-fleet", {"Frontend": 2, "worker": 2, "plain": 1}),
        ("rolling-upgrade/1-frontends", {"Frontend": 2, "worker": 0, "plain": 2}),
        ("rolling-upgrade/2-one-worker", {"Frontend": 2, "worker": 1, "plain": 1}),
        ("rolling-upgrade/3-all-workers", {"Frontend": 2, "worker": 2, "plain": 0}),
    ],
)
def test_components(name: str, expected: dict[str, int]) -> None:
    assert replicas(name) == expected


@needs("kubectl")
def test_the_steps_of_an_upgrade_change_replicas_alone() -> None:
    """Anything else would give the workers a new revision, and restart them."""
    steps = []
    for folder in sorted((KUBERNETES / "overlays" / "rolling-upgrade").iterdir()):
        graph = copy.deepcopy(find_graph(render(folder)))
        for component in graph["spec"]["components"]:
            del component["replicas"]
        steps.append(graph)
    assert len(steps) == 3
    assert steps[0] == steps[1] == steps[2]


@needs("kubectl")
def test_a_sidecars_service_finds_its_pods() -> None:
    resources = render(KUBERNETES / "overlays" / "frontend-sidecar")
    (service,) = (found for found in resources if found["kind"] == "Service")
    worker = list_components(find_graph(resources))["worker"]
    assert worker["frontendSidecar"] == "frontend"
    labels = worker["podTemplate"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items()
    ports = {port["name"] for port in list_containers(worker)["frontend"]["ports"]}
    assert {port["targetPort"] for port in service["spec"]["ports"]} <= ports


@needs("kubectl")
def test_an_init_container_installs_into_the_path() -> None:
    resources = render(KUBERNETES / "overlays" / "without-image")
    graph = find_graph(resources)
    (config,) = (found for found in resources if found["kind"] == "ConfigMap")
    installer = (ROOT / "deploy" / "docker" / "install.py").read_text(encoding="utf-8")
    assert config["data"]["install.py"] == installer
    variables = {entry["name"]: entry["value"] for entry in graph["spec"]["env"]}
    for component in list_components(graph).values():
        pod = component["podTemplate"]["spec"]
        (init,) = pod["initContainers"]
        (main,) = pod["containers"]
        assert init["image"] == main["image"]
        folder = init["args"][init["args"].index("--target") + 1]
        assert folder == variables["PYTHONPATH"]
        mounts = {mount["name"]: mount["mountPath"] for mount in init["volumeMounts"]}
        volumes = {volume["name"]: volume for volume in pod["volumes"]}
        assert volumes["installer"]["configMap"]["name"] == config["metadata"]["name"]
        assert init["command"][1] == f"{mounts['installer']}/install.py"
        shared = {mount["name"]: mount["mountPath"] for mount in main["volumeMounts"]}
        assert shared["backedge"] == folder == mounts["backedge"]
        # The digest is the operator's to set; without one the installer refuses.
        assert re.fullmatch(r"https://\S+\.whl#sha256=SET_THE_DIGEST", init["args"][-1])


@needs("kubectl")
def test_an_engine_starts_before_its_worker_and_ends_after_it() -> None:
    """In its maker's image, and no other pod reaches its server."""
    engine = find_engine()
    assert engine["image"].startswith("vllm/vllm-openai:")
    assert engine["restartPolicy"] == "Always"
    assert {"startupProbe", "livenessProbe"} <= {*engine}
    args = engine["args"]
    host, port = (args[args.index(flag) + 1] for flag in ("--host", "--port"))
    assert host == "127.0.0.1"
    (main,) = engine["pod"]["containers"]
    assert parse_address(main["args"][main["args"].index("--engine") + 1]) == f"{host}:{port}"
    assert "nvidia.com/gpu" in engine["resources"]["limits"]
    assert "nvidia.com/gpu" not in main["resources"]["limits"]
    (script,) = engine["startupProbe"]["exec"]["command"][2:]
    assert f'"{host}:{port}"' in script
    installed = engine["pod"]["initContainers"][0]
    assert installed["image"] == engine["image"]
    (path,) = (found["value"] for found in engine["env"] if found["name"] == "PYTHONPATH")
    assert {f"--target={path}", "--require-hashes"} <= {*installed["args"]}
    mounted = {mount["name"] for mount in engine["volumeMounts"]}
    assert mounted <= {volume["name"] for volume in engine["pod"]["volumes"]}


@needs("kubectl")
def test_recordings_have_a_volume_that_holds_them() -> None:
    worker = list_components(find_graph(render(KUBERNETES / "overlays" / "recording")))["worker"]
    main = list_containers(worker)["main"]
    parsed = parse_worker("vllm", main["args"])
    _, volume = worker["podTemplate"]["spec"]["volumes"]
    assert volume["emptyDir"]["sizeLimit"] == "2Gi"
    assert parsed.postprocess_record_mb < 2048
    _, mount = main["volumeMounts"]
    assert (mount["name"], mount["mountPath"]) == (volume["name"], parsed.postprocess_record[0])


def render_own(folder: Path, text: str) -> list[dict[str, Any]]:
    """Render an overlay of the reader's, beside the others in a copy of them."""
    shutil.copytree(ROOT / "deploy", folder / "deploy")
    own = folder / "deploy" / "kubernetes" / "overlays" / "own"
    own.mkdir()
    (own / "kustomization.yaml").write_text(text, encoding="utf-8")
    return render(own)


@needs("kubectl")
def test_the_pages_example_is_an_overlay(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
    (text,) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    graph = find_graph(render_own(tmp_path, text))
    assert find_faults(graph) == []
    assert graph["metadata"]["name"] == "my-model"
    assert list_components(graph)["worker"]["replicas"] == 4
    assert {"name": "MODEL", "value": "Qwen/Qwen3-32B"} in graph["spec"]["env"]


@needs("kubectl")
@pytest.mark.parametrize("engine", RUNTIMES)
def test_components_go_together(engine: str, tmp_path: Path) -> None:
    """In the order that the page gives: an engine, then what copies of a worker are to have."""
    names = ["recording", "without-image", "disaggregated"]
    own = {
        "resources": ["../../base"],
        "components": [
            f"../../components/{name}" for name in ([] if engine == "vllm" else [engine]) + names
        ],
    }
    graph = find_graph(render_own(tmp_path, yaml.safe_dump(own)))
    assert find_faults(graph) == []
    components = list_components(graph)
    assert set(components) == {"Frontend", "decode", "prefill"}
    for name, component in components.items():
        pod = component["podTemplate"]["spec"]
        images = {item["image"] for item in (*pod["containers"], *pod["initContainers"])}
        assert images == {f"nvcr.io/nvidia/ai-dynamo/{RUNTIMES[engine]}-runtime:1.6.1"}
        volumes = ["backedge", "installer", "scratch"]
        recorded = [] if name == "Frontend" else ["recordings"]
        assert sorted(volume["name"] for volume in pod["volumes"]) == sorted(volumes + recorded)
