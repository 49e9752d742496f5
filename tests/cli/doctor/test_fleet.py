"""What is said of a fleet: its frontend, its workers, and what is mixed."""

from __future__ import annotations

import json

import msgspec
import pytest
from backedge.cli.doctor.discovery import parse_instance
from backedge.cli.doctor.fleet import check_frontend, check_system_port, check_workers

from tests.cli.doctor.fleets import HERMES, card, frontend_answers, serve


def workers(*cards):
    return [parse_instance(json.dumps(one).encode()) for one in cards]


def changed(**fields):
    return msgspec.structs.replace(HERMES, **fields)


def complaints(findings):
    return [(one.severity, one.message) for one in findings if one.severity != "ok"]


def test_a_healthy_fleet_is_described() -> None:
    fleet = workers(card("m", instance=1), card("m", instance=2))
    [finding] = check_workers(fleet)
    assert finding.severity == "ok"
    assert (
        "2 workers: 2 of vllm 0.31.0 post-processing with hermes and no parser" in finding.message
    )
    with serve(frontend_answers("m")) as url:
        frontend, models = check_frontend(url, fleet)
    assert "healthy, Backedge's, and sees 1 worker endpoints" in frontend.message
    assert models.message == "m"


# The second worker of a model, and a part of the one complaint.
SECOND = [
    (card(own=None), "1 of 2 workers are plain"),
    (card(own=changed(tool_call_parser="xlam")), "different parsers: hermes and None; xlam"),
    (card(own=changed(engine="sglang")), "different engines: sglang 0.31.0; vllm 0.31.0"),
    (card(own=changed(backedge_version="0.2.0")), "versions of Backedge: 0.1.0; 0.2.0"),
    (card(own=changed(version=99)), "speak version 99 of the protocol"),
    (card(reasoning_parser="x"), "names for Dynamo's own frontend"),
    (card(context_length=9), "context lengths: 2048; 9"),
]


@pytest.mark.parametrize(("second", "part"), SECOND, ids=[part for _, part in SECOND])
def test_what_is_mixed(second, part) -> None:
    [(severity, message)] = complaints(check_workers(workers(card(), second)))
    assert severity == "warning"
    assert part in message


def test_workers_of_different_models_may_differ() -> None:
    fleet = workers(card("a"), card("b", None))
    assert complaints(check_workers(fleet)) == []


def test_prefill_workers_answer_nobody() -> None:
    assert complaints(check_workers(workers(card(), card(own=None, worker_type="prefill")))) == []
    assert list(check_workers(workers(card(worker_type="prefill")))) == []


def test_a_parser_of_a_plugin_is_noted() -> None:
    fleet = workers(card(own=changed(tool_call_parser="mine")))
    [(severity, message)] = complaints(check_workers(fleet))
    assert severity == "note"
    assert "mine is a parser of the engine or of a plugin" in message


def test_a_parser_of_dynamos_beside_our_own_is_noted() -> None:
    [(severity, message)] = complaints(check_workers(workers(card(tool_call_parser="hermes"))))
    assert severity == "note"
    assert "Dynamo's parser hermes reads answers without a stream again" in message
    assert complaints(check_workers(workers(card(own=None, tool_call_parser="hermes")))) == []


@pytest.mark.parametrize(
    ("answers", "severity", "part"),
    [
        ({}, "error", "HTTP 404"),
        (frontend_answers("m", status="unhealthy"), "error", "is unhealthy"),
        (frontend_answers(), "error", "serves no model"),
        ({**frontend_answers("m"), "/health": (200, "<html>")}, "error", "JSON"),
        # Whatever answers there, it need not be Dynamo.
        *(
            ({**frontend_answers("m"), path: (200, answer)}, "error", part)
            for path in ("/v1/models", "/health")
            for answer, part in (("[]", "Expected `object`"), ("7", "Expected `object`"))
        ),
        ({**frontend_answers("m"), "/v1/models": (200, "{}")}, "error", "missing"),
        ({**frontend_answers("m"), "/v1/models": (200, '{"data": [{}]}')}, "error", "missing"),
        (frontend_answers("m", ours=False), "warning", "name no parsers for it"),
    ],
)
def test_complaints_of_a_frontend(answers, severity, part) -> None:
    with serve(answers) as url:
        found = complaints(check_frontend(url, workers(card("m"))))
    assert (severity, part) in [(level, part) for level, message in found if part in message]


def test_a_model_that_the_frontend_does_not_see() -> None:
    with serve(frontend_answers("m")) as url:
        [(severity, message)] = complaints(check_frontend(url, workers(card("m"), card("other"))))
    assert severity == "warning"
    assert "the frontend does not" in message


def test_stock_frontends_with_names_of_their_own_are_fine() -> None:
    with serve(frontend_answers("m", ours=False)) as url:
        assert complaints(check_frontend(url, workers(card(tool_call_parser="hermes")))) == []


@pytest.mark.parametrize(
    ("metrics", "severity", "part"),
    [
        ("dynamo_x 1\n", "note", "plain worker"),
        ('backedge_parser_errors_total{parser="hermes"} 0.0\n', "ok", "no parser has failed"),
        ('backedge_parser_errors_total{parser="hermes"} 2.0\n', "warning", 'parser="hermes"} 2.0'),
        ("backedge_parser_errors_total nothing\n", "warning", "nothing"),
        (None, "error", "HTTP 404"),
    ],
)
def test_a_system_port(metrics, severity, part) -> None:
    with serve({} if metrics is None else {"/metrics": (200, metrics)}) as url:
        [finding] = check_system_port(url)
    assert finding.severity == severity
    assert part in finding.message
