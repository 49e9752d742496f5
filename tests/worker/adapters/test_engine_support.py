"""What the adapters of all engines check before an engine loads.

TensorRT-LLM is the stand-in of tests/standin.
"""

from __future__ import annotations

import importlib
import importlib.metadata
from typing import Any

import pytest
from backedge.parsers.errors import SetupError
from backedge.worker.adapters import sglang, trtllm, vllm

ENGINES = (vllm.ENGINE, sglang.ENGINE, trtllm.ENGINE)
ADAPTERS = pytest.mark.parametrize("engine", ENGINES, ids=[engine.name for engine in ENGINES])


@ADAPTERS
@pytest.mark.parametrize("version", ["1.5.2", "1.60.0", "0.32.0", "0.6.1"])
@pytest.mark.parametrize("package", ["ai-dynamo", None])
def test_other_versions_are_refused_by_name(
    engine: Any, package: str | None, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = package or engine.distribution
    real = importlib.metadata.version
    monkeypatch.setattr(
        importlib.metadata, "version", lambda name: version if name == package else real(name)
    )
    with pytest.raises(SetupError, match=f"{package} {version}") as caught:
        engine.check_versions()
    assert "ai-dynamo 1.6.x" in str(caught.value)
    assert f"{engine.distribution} {engine.version}.x" in str(caught.value)


@ADAPTERS
def test_an_engine_that_is_not_installed_is_refused(
    engine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find_nothing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", find_nothing)
    with pytest.raises(SetupError, match=f"found ai-dynamo none, {engine.distribution} none"):
        engine.check_versions()


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
