"""Versions, limits of the machine, and the seams of an engine."""

from __future__ import annotations

import resource

import pytest
from backedge.base.errors import SetupError
from backedge.base.seams import Seam, replaced
from backedge.cli.doctor import installation
from backedge.cli.doctor.installation import check_engine, check_installation
from backedge.engines.trtllm import seams as trtllm
from backedge.engines.trtllm import worker

MONITOR = "dynamo.trtllm.request_handlers.handler_base:HandlerBase._cancellation_monitor"


def test_what_is_installed_is_named_with_its_version() -> None:
    first, *_ = check_installation()
    assert first.severity == "ok"
    assert "backedge " in first.message
    assert "ai-dynamo 1." in first.message


def test_without_dynamo_it_says_so(monkeypatch) -> None:
    monkeypatch.setattr(installation, "read_version", lambda _: "none")
    findings = list(check_installation())
    assert "no engine and no Dynamo" in findings[0].message
    [fix] = [one.fix for one in findings if one.topic == "Dynamo"]
    assert "aisimulate" in fix


@pytest.mark.parametrize(
    ("files", "severity"),
    [(1024, "note"), (65536, "ok"), (resource.RLIM_INFINITY, "ok")],
)
def test_few_open_files_are_noted(files, severity, monkeypatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (files, files))
    *_, machine = check_installation()
    assert machine.severity == severity
    assert bool(machine.fix) == (severity == "note")


def test_every_seam_of_an_engine_is_a_row() -> None:
    versions, *rows, last = check_engine("trtllm", lists=True)
    assert "fit" in versions.message
    assert last.message.startswith(f"{len(rows)} of {len(rows)} places")
    assert [*check_engine("trtllm")] == [versions, last]
    assert {row.severity for row in rows} == {"ok"}
    assert f"{MONITOR} holds: takes (self, generation_result, context, ...)" in {
        row.message for row in rows
    }


@pytest.mark.parametrize(
    ("feature", "severity", "part"),
    [("", "error", "does not hold: "), ("groups", "warning", "groups is off: ")],
)
def test_a_seam_that_does_not_hold(feature, severity, part, monkeypatch) -> None:
    broken = Seam(replaced(MONITOR, "*, gone"), why="", without="nothing ends", feature=feature)
    monkeypatch.setattr(trtllm, "SEAMS", {"worker": [broken]})
    _, finding, _ = check_engine("trtllm")
    assert finding.severity == severity
    assert part in finding.message
    assert "takes no gone" in finding.message


def test_versions_that_do_not_fit(monkeypatch) -> None:
    monkeypatch.setattr(trtllm, "SEAMS", {})
    monkeypatch.setattr(type(worker.ENGINE), "check_versions", refuse)
    finding = next(check_engine("trtllm"))
    assert (finding.severity, finding.message) == ("error", "found none")


def refuse(_) -> None:
    raise SetupError("found none")


def test_an_engine_that_is_not_installed_is_not_checked(monkeypatch) -> None:
    monkeypatch.setattr(installation, "read_version", lambda _: "none")
    [finding] = check_engine("trtllm")
    assert finding.severity == "note"
    assert "not installed here" in finding.message
