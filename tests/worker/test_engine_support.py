"""What the adapters of all engines check before an engine loads.

TensorRT-LLM is the stand-in of tests/standin.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import re
from typing import Any

import pytest
from backedge.base.errors import SetupError
from backedge.engines.sglang import worker as sglang
from backedge.engines.trtllm import worker as trtllm
from backedge.engines.vllm import worker as vllm

ENGINES = (vllm.ENGINE, sglang.ENGINE, trtllm.ENGINE)
ADAPTERS = pytest.mark.parametrize("engine", ENGINES, ids=[engine.name for engine in ENGINES])


# Dynamo's version, by engine the version that goes with it
SUPPORTED = {
    "1.6.1": {"vllm": "0.31.0", "sglang": "0.5.21", "trtllm": "1.3.0rc29"},
    "1.7.0.dev20261026": {"vllm": "0.32.0+cpu", "sglang": "0.5.22", "trtllm": "1.4.0rc0"},
}
OTHERS = ("1.5.2", "1.60.0", "0.33.0", "0.6.1", "none")


def pretend(monkeypatch: pytest.MonkeyPatch, **versions: str) -> None:
    """Have the given versions installed, none for a package that is not given."""

    def find(name: str) -> str:
        version = versions.get(name.replace("-", "_"), "none")
        if version == "none":
            raise importlib.metadata.PackageNotFoundError(name)
        return version

    monkeypatch.setattr(importlib.metadata, "version", find)


@ADAPTERS
@pytest.mark.parametrize("dynamo", [*SUPPORTED, *OTHERS])
def test_dynamo_and_the_engine_must_fit_each_other(
    engine: Any, dynamo: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fitting = SUPPORTED.get(dynamo, {}).get(engine.name)
    of_others = {versions[engine.name] for versions in SUPPORTED.values()} | set(OTHERS)
    for version in of_others:
        installed = {engine.distribution.replace("-", "_"): version}
        pretend(monkeypatch, ai_dynamo=dynamo, **installed)
        # Dynamo 1.6 and 1.7 both go with every SGLang 0.5.
        if fitting and (version == fitting or (engine.name, version[:4]) == ("sglang", "0.5.")):
            engine.check_versions()
            continue
        found = f"found ai-dynamo {dynamo} with {engine.distribution} {version}"
        with pytest.raises(SetupError, match=re.escape(found)) as caught:
            engine.check_versions()
        for with_dynamo, supported in engine.versions.items():
            pair = f"ai-dynamo {with_dynamo}.x with {engine.distribution} {supported}.x"
            assert pair in str(caught.value)


@ADAPTERS
def test_these_versions_and_patch_points_are_the_supported_ones(engine: Any) -> None:
    engine.check_versions()
    engine.check_patch_points()


PATCH_POINTS = [
    (engine, module, path)
    for engine in ENGINES
    for module, path in (
        *((module, path) for module, path, _ in engine.patch_points),
        engine.metrics,
    )
]


@pytest.mark.parametrize(
    ("engine", "module", "path"),
    PATCH_POINTS,
    ids=[f"{module}.{path}" for _, module, path in PATCH_POINTS],
)
def test_a_patch_point_that_is_not_there_is_refused_by_name(
    engine: Any, module: str, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    *parents, name = path.split(".")
    owner: Any = importlib.import_module(module)
    for parent in parents:
        owner = getattr(owner, parent)
    monkeypatch.setattr(
        owner, name, lambda something_else: None
    ) if parents else monkeypatch.delattr(owner, name)
    with pytest.raises(SetupError, match=path.replace(".", r"\.")):
        engine.check_patch_points()


@ADAPTERS
def test_a_refusal_ends_the_process_with_the_message_alone(engine: Any) -> None:
    def refuse() -> None:
        raise SetupError("no.")

    with pytest.raises(SystemExit, match=r"^Backedge: no\.$"):
        engine.exit_on_setup_error(refuse)()
