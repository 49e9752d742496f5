"""The manifests: what Dynamo's operator and Kubernetes accept, and what the workers' flags mean."""

from __future__ import annotations

import argparse
import copy
import importlib
import importlib.metadata
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from backedge.frontend import main as frontend_main
from backedge.parsers.parser_lookup import reasoning_format, tool_format
from backedge.worker import flags
from backedge.worker.contract import read_flags
from backedge.worker.sidecar import parse_address, parse_arguments
from packaging.version import Version

from tests.deploy.manifests import (
    KUBERNETES,
    OVERLAYS,
    ROOT,
    find_faults,
    find_graph,
    list_components,
    list_containers,
    name_overlay,
    needs_kubectl,
    render,
)

BASE = yaml.safe_load((KUBERNETES / "base" / "graph.yaml").read_text(encoding="utf-8"))
(PROFILER,) = importlib.import_module("dynamo.profiler").__path__
TEMPLATES = sorted((Path(PROFILER) / "templates" / "dgd").rglob("*.yaml"))
each_overlay = pytest.mark.parametrize("folder", OVERLAYS, ids=name_overlay)
ENGINES = {"dynamo.vllm": "vllm", "dynamo.sglang": "sglang", "dynamo.trtllm": "trtllm"}
SIDECAR = "backedge.worker.sidecar"
RUNTIMES = {"vllm": "vllm", "sglang": "sglang", "trtllm": "tensorrtllm"}
# The engines' own flags, as Dynamo's templates have them, beside Dynamo's.
ENGINE_FLAGS = (
    *("--model", "--model-path", "--served-model-name", "--kv-events-config"),
    *("--kv-transfer-config", "--page-size", "--disaggregation-transfer-backend"),
    *("--disaggregation-bootstrap-port", "--host"),
)
# An engine's own parser flags are its own, and Dynamo's prefill and decode are SGLang's.
SGLANG_FLAGS = ("--disaggregation-mode",)


def each_container(folder: Path) -> Iterator[tuple[str, dict[str, Any], list[str]]]:
    """Yield each container's component, itself and its command with all variables in place."""
    graph = find_graph(render(folder))
    variables = {entry["name"]: entry["value"] for entry in graph["spec"]["env"]}
    for name, component in list_components(graph).items():
        for container in list_containers(component).values():
            words = [*container["command"], *container["args"]]
            yield name, container, [expand(word, variables) for word in words]


def expand(word: str, variables: dict[str, str]) -> str:
    """Replace $(NAME) as Kubernetes does; raises KeyError if there is no such variable."""
    return re.sub(r"\$\((\w+)\)", lambda found: variables[found[1]], word)


@needs_kubectl
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


# What runs in them.


@needs_kubectl
@each_overlay
def test_the_frontends_flags_are_flags(folder: Path, monkeypatch: Any) -> None:
    from dynamo.frontend.frontend_args import FrontendArgGroup

    found = [words for *_, words in each_container(folder) if "backedge.frontend" in words]
    assert found
    for words in found:
        assert words[:3] == ["python3", "-m", "backedge.frontend"]
        parser = argparse.ArgumentParser(allow_abbrev=False, exit_on_error=False)
        FrontendArgGroup().add_arguments(parser)
        parsed = parser.parse_args(frontend_main.parse_flags(words[3:]).other_arguments)
        assert parsed.migration_limit > 0


def parse_worker(engine: Any, words: list[str]) -> argparse.Namespace:
    """Parse the flags of Dynamo and Backedge, and take the engine's own as known."""
    from dynamo.common.configuration.groups.runtime_args import DynamoRuntimeArgGroup

    backend = importlib.import_module(f"dynamo.{engine}.backend_args")
    groups = {
        "vllm": "DynamoVllmArgGroup",
        "sglang": "DynamoSGLangArgGroup",
        "trtllm": "DynamoTrtllmArgGroup",
    }
    parser = argparse.ArgumentParser(allow_abbrev=False, exit_on_error=False)
    DynamoRuntimeArgGroup().add_arguments(parser)
    getattr(backend, groups[engine])().add_arguments(parser)
    if engine == "sglang":
        parser.add_argument("--reasoning-parser")
        parser.add_argument("--tool-call-parser")
        for flag in SGLANG_FLAGS:
            parser.add_argument(flag)
    if engine == "vllm":
        parser.add_argument("--reasoning-parser")
    flags.add_flags(parser, engine)
    known = parser._option_string_actions
    for flag in ENGINE_FLAGS:
        if flag not in known:
            parser.add_argument(flag)
    return parser.parse_args(words)


@needs_kubectl
@each_overlay
def test_the_workers_flags_are_flags(folder: Path) -> None:
    processing = 0
    for component, container, words in each_container(folder):
        if "backedge.frontend" in words:
            continue
        assert words[:2] == ["python3", "-m"]
        if words[2] == SIDECAR:
            beside, rest = read_flags(words[3:])
            assert (beside.names.tool_call, beside.names.reasoning) == ("hermes", "qwen3")
            assert parse_arguments(rest)[0].kind == "vllm"
            processing += 1
            continue
        engine: Any = ENGINES[words[2]]
        parsed = parse_worker(engine, words[3:])
        settings = flags.read_settings(parsed, engine)
        assert (settings is None) == (component == "plain")
        assert (engine in container["image"]) or (RUNTIMES[engine] in container["image"])
        if settings is not None:
            processing += 1
            assert tool_format(settings.names.tool_call or "") is not None
            assert reasoning_format(settings.names.reasoning or "") is not None
            continue
        assert tool_format(parsed.dyn_tool_call_parser) is not None
    assert processing


def find_engine() -> dict[str, Any]:
    """Return the container of the engine that has a worker beside it."""
    graph = find_graph(render(KUBERNETES / "overlays" / "sidecar"))
    pod = list_components(graph)["worker"]["podTemplate"]["spec"]
    (engine,) = (found for found in pod["initContainers"] if found["name"] == "engine")
    return {**engine, "pod": pod}


PARSE_WITH_VLLM = """
import json, sys
from dynamo.vllm.args import _parse_cli_args
from vllm.entrypoints.launchers.cli_args import make_arg_parser
from vllm.utils.argparse_utils import FlexibleArgumentParser
workers, engines = json.load(sys.stdin)
for words in workers:
    _parse_cli_args(words)
for words in engines:
    assert make_arg_parser(FlexibleArgumentParser()).parse_args(words).grpc
"""


@needs_kubectl
def test_vllms_own_parser_takes_them() -> None:
    """The whole command line, with the plugin loaded, as `python -m dynamo.vllm` reads it."""
    commands = [
        words[3:]
        for folder in OVERLAYS
        for *_, words in each_container(folder)
        if words[2] == "dynamo.vllm"
    ]
    unique = [json.loads(text) for text in sorted({json.dumps(words) for words in commands})]
    assert len(unique) == 5  # a worker, one that records, a plain one, prefill, decode
    done = subprocess.run(
        [sys.executable, "-c", PARSE_WITH_VLLM],
        input=json.dumps([unique, [find_engine()["args"]]]),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]


@needs_kubectl
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


@needs_kubectl
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


@needs_kubectl
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


@needs_kubectl
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


# The overlays, one by one.


def replicas(name: str) -> dict[str, int]:
    graph = find_graph(render(KUBERNETES / "overlays" / name))
    return {part: component["replicas"] for part, component in list_components(graph).items()}


@needs_kubectl
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


@needs_kubectl
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


@needs_kubectl
def test_a_sidecars_service_finds_its_pods() -> None:
    resources = render(KUBERNETES / "overlays" / "frontend-sidecar")
    (service,) = (found for found in resources if found["kind"] == "Service")
    worker = list_components(find_graph(resources))["worker"]
    assert worker["frontendSidecar"] == "frontend"
    labels = worker["podTemplate"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items()
    ports = {port["name"] for port in list_containers(worker)["frontend"]["ports"]}
    assert {port["targetPort"] for port in service["spec"]["ports"]} <= ports


@needs_kubectl
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


@needs_kubectl
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


@needs_kubectl
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


@needs_kubectl
def test_the_pages_example_is_an_overlay(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
    (text,) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    graph = find_graph(render_own(tmp_path, text))
    assert find_faults(graph) == []
    assert graph["metadata"]["name"] == "my-model"
    assert list_components(graph)["worker"]["replicas"] == 4
    assert {"name": "MODEL", "value": "Qwen/Qwen3-32B"} in graph["spec"]["env"]


@needs_kubectl
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


@needs_kubectl
def test_the_podmonitor_scrapes_every_pod() -> None:
    (monitor,) = render(KUBERNETES / "monitoring" / "podmonitor")
    scraped = {endpoint["port"] for endpoint in monitor["spec"]["podMetricsEndpoints"]}
    wanted = monitor["spec"]["selector"]["matchLabels"].items()
    for folder in OVERLAYS:
        for component in list_components(find_graph(render(folder))).values():
            assert wanted <= component["podTemplate"]["metadata"]["labels"].items()
            for container in list_containers(component).values():
                assert {port["name"] for port in container["ports"]} <= scraped


@needs_kubectl
def test_the_dashboard_is_a_configmap_that_grafana_finds() -> None:
    resources = render(KUBERNETES / "monitoring")
    (config,) = (found for found in resources if found["kind"] == "ConfigMap")
    assert config["metadata"]["labels"]["grafana_dashboard"] == "1"
    dashboard = (ROOT / "deploy" / "grafana" / "backedge.json").read_text(encoding="utf-8")
    assert config["data"] == {"backedge.json": dashboard}
