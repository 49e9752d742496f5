"""What the adapters of all engines check before an engine loads.

TensorRT-LLM is the stand-in of tests/standin.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import re
from typing import Any

import msgspec
import pytest
from backedge.base.errors import SetupError
from backedge.base.seams import Seam, read
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
def test_these_versions_are_supported_and_their_seams_hold(engine: Any) -> None:
    engine.check_versions()
    assert engine.check_seams("flags", "worker", "parsers", "detokenizer") == frozenset()


@ADAPTERS
def test_flags_that_nothing_would_see_are_refused(
    engine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert engine.sees_flags([engine.flag])
    monkeypatch.delattr(argparse.ArgumentParser, "parse_args")
    gone = Seam(
        read("argparse:ArgumentParser.parse_args"),
        why="",
        without="nothing is seen",
    )
    broken = msgspec.structs.replace(engine, seams={"flags": [gone]})
    assert not broken.sees_flags(["--model", "m"])
    with pytest.raises(SystemExit, match=r"^Backedge: argparse has no .* nothing is seen .*found"):
        broken.sees_flags([engine.flag])
