"""Manifests as kustomize renders them, and what is wrong with them."""

from __future__ import annotations

import functools
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from kubernetes.client import models

from tests.machine import require

ROOT = Path(__file__).parent.parent.parent
KUBERNETES = ROOT / "deploy" / "kubernetes"
OVERLAYS = sorted(path.parent for path in (KUBERNETES / "overlays").rglob("kustomization.yaml"))
# The names of the engines' images.
RUNTIMES = {"vllm": "vllm", "sglang": "sglang", "trtllm": "tensorrtllm"}

SCHEMA = json.loads(Path(__file__).with_name("dynamo_graph_deployment.json").read_text("utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
NESTED = re.compile(r"(list\[|dict\(str, )(.*)[\])]")
SCALARS: dict[str, Any] = {"str": str, "int": int, "float": (int, float), "bool": bool}
# Dynamo's operator reads the version from the tag, whatever follows it.
VERSION_TAG = re.compile(r":(\d+\.\d+\.\d+)(-[0-9A-Za-z.-]+)?$")


def name_overlay(folder: Path) -> str:
    return folder.relative_to(KUBERNETES).as_posix()


each_overlay = pytest.mark.parametrize("folder", OVERLAYS, ids=name_overlay)


@functools.cache
def render(folder: Path) -> list[dict[str, Any]]:
    """Return the resources of a kustomization."""
    done = subprocess.run(
        [require("kubectl"), "kustomize", str(folder)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return [resource for resource in yaml.safe_load_all(done.stdout) if resource]


def find_graph(resources: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the only DynamoGraphDeployment."""
    (graph,) = (found for found in resources if found["kind"] == "DynamoGraphDeployment")
    return graph


def list_components(graph: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {component["name"]: component for component in graph["spec"]["components"]}


def list_containers(component: dict[str, Any]) -> dict[str, dict[str, Any]]:
    containers = component["podTemplate"]["spec"]["containers"]
    return {container["name"]: container for container in containers}


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


def find_engine() -> dict[str, Any]:
    """Return the container of the engine that has a worker beside it."""
    graph = find_graph(render(KUBERNETES / "overlays" / "sidecar"))
    pod = list_components(graph)["worker"]["podTemplate"]["spec"]
    (engine,) = (found for found in pod["initContainers"] if found["name"] == "engine")
    return {**engine, "pod": pod}


def find_faults(graph: dict[str, Any]) -> list[str]:
    """Return what Dynamo's operator, or Kubernetes, would refuse."""
    faults = [f"{error.json_path}: {error.message}" for error in VALIDATOR.iter_errors(graph)]
    if faults:
        return faults
    env = check_model(graph["spec"].get("env", []), "list[V1EnvVar]", "spec.env")
    return [*env, *_check_names(graph), *_check_pods(graph)]


def _check_names(graph: dict[str, Any]) -> Iterator[str]:
    names = [component["name"].lower() for component in graph["spec"]["components"]]
    if len(names) != len(set(names)):
        yield f"names are not unique: {names}"
    types = [component.get("type") for component in graph["spec"]["components"]]
    if types.count("epp") > 1:
        yield "more than one component has the type epp"


def _check_pods(graph: dict[str, Any]) -> Iterator[str]:
    for component in graph["spec"]["components"]:
        where = component["name"]
        yield from check_model(component["podTemplate"], "V1PodTemplateSpec", where)
        containers = list_containers(component)
        if "main" not in containers:
            yield f"{where}: no container is called main"
        sidecar = component.get("frontendSidecar", "main")
        if sidecar not in containers:
            yield f"{where}: there is no container {sidecar}"
        for name, container in containers.items():
            if not container.get("image"):
                yield f"{where}.{name} has no image"
        image = containers.get("main", {}).get("image", "")
        if not VERSION_TAG.search(image) and "runtimeVersionOverride" not in component:
            yield f"{where}: the tag of {image!r} is no version"


def check_model(value: Any, kind: str, where: str) -> Iterator[str]:
    """Return how `value` differs from a type of the Kubernetes API, such as "list[V1Pod]"."""
    if kind in SCALARS:
        # A bool is no number here.
        if not isinstance(value, SCALARS[kind]) or (isinstance(value, bool) and kind != "bool"):
            yield f"{where}: {value!r} is not {kind}"
    elif nested := NESTED.fullmatch(kind):
        if not isinstance(value, list if nested[1] == "list[" else dict):
            yield f"{where}: {value!r} is not {kind}"
            return
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from check_model(item, nested[2], f"{where}.{key}")
    elif kind != "object":
        yield from _check_fields(value, getattr(models, kind), where)


def _check_fields(value: Any, model: Any, where: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{where}: {value!r} is not {model.__name__}"
        return
    kinds = {field: model.openapi_types[name] for name, field in model.attribute_map.items()}
    for field, inner in value.items():
        if field in kinds:
            yield from check_model(inner, kinds[field], f"{where}.{field}")
        else:
            yield f"{where}: there is no field {field}"
