"""Versions, limits of the machine, and the seams of an engine."""

from __future__ import annotations

import importlib
import resource
from types import SimpleNamespace

import pytest
from backedge.base.errors import SetupError
from backedge.cli.doctor import installation
from backedge.cli.doctor.installation import check_engine, check_installation


def test_what_is_installed_is_named_with_its_version() -> None:
    first, *_ = check_installation()
    assert first.severity == "ok"
    assert "backedge " in first.message
    assert "ai-dynamo 1." in first.message


def test_without_dynamo_it_says_so(monkeypatch) -> None:
    monkeypatch.setattr(installation, "read_version", lambda _: "none")
    findings = list(check_installation())
    assert "no engine and no Dynamo" in findings[0].message
    assert [one.fix for one in findings if one.topic == "Dynamo"] == ["pip install ai-dynamo"]


@pytest.mark.parametrize(
    ("files", "severity"),
    [(1024, "note"), (65536, "ok"), (resource.RLIM_INFINITY, "ok")],
)
def test_few_open_files_are_noted(files, severity, monkeypatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (files, files))
    *_, machine = check_installation()
    assert machine.severity == severity
    assert bool(machine.fix) == (severity == "note")


def refuse(message: str):
    def check() -> None:
        raise SetupError(message)

    return check


@pytest.mark.parametrize(
    ("versions", "patch_points", "severity", "part"),
    [
        (lambda: None, lambda: None, "ok", "fit"),
        (refuse("found vllm 0.1"), lambda: None, "error", "found vllm 0.1"),
        (lambda: None, refuse("not what Backedge expects"), "error", "not what Backedge expects"),
    ],
)
def test_seams(versions, patch_points, severity, part, monkeypatch) -> None:
    support = SimpleNamespace(
        check_versions=versions, check_patch_points=patch_points, distribution="vllm"
    )
    monkeypatch.setattr(importlib, "import_module", lambda _: SimpleNamespace(ENGINE=support))
    [finding] = check_engine("vllm")
    assert finding.severity == severity
    assert part in finding.message


def test_an_engine_that_is_not_installed_is_not_checked(monkeypatch) -> None:
    def fail(_):
        raise ImportError("no module named vllm")

    support = SimpleNamespace(distribution="no-such-engine")
    for load in (fail, lambda _: SimpleNamespace(ENGINE=support)):
        monkeypatch.setattr(importlib, "import_module", load)
        [finding] = check_engine("trtllm")
        assert finding.severity == "note"
        assert "not installed here" in finding.message
