"""The soak explains an error only by a fault that can cause it."""

import dataclasses
from typing import Any

import httpx
import openai
import pytest

from tests.soak.faults import Fault
from tests.soak.figures import Report
from tests.soak.load import (
    GUIDED,
    HELD_IN_RUST,
    Outcome,
    Result,
    Target,
    failed,
    spell_whole,
)
from tests.support import TRANSCRIPTS, as_whole

REQUEST: Any = httpx.Request("POST", "http://127.0.0.1/v1/chat/completions")
BROKEN = openai.APIConnectionError(request=REQUEST)
TIMEOUT = openai.APITimeoutError(request=REQUEST)
WORKER = Fault("worker", frozenset({GUIDED}), 0.0, 1.0)
PLAIN = Fault("plain worker", frozenset({HELD_IN_RUST, GUIDED}), 0.0, 1.0)
CUT = TRANSCRIPTS["cut_call"]
FRONTEND = Fault("frontend", frozenset({"frontend"}), 2.0, 3.0)


@pytest.mark.parametrize(
    ("error", "faults", "cause"),
    [
        (BROKEN, [WORKER, FRONTEND], "frontend: APIConnectionError"),
        (BROKEN, [WORKER], None),
        (TIMEOUT, [WORKER], "worker: APITimeoutError"),
        (TIMEOUT, [WORKER, FRONTEND], "frontend: APITimeoutError"),
    ],
)
def test_an_error_has_the_latest_fault_that_can_cause_it(
    error: openai.OpenAIError, faults: list[Fault], cause: str | None
) -> None:
    client = openai.AsyncOpenAI(api_key="none")
    uses = frozenset({"frontend", GUIDED})
    outcome = failed(Target("frontend", client, "m"), uses, error, 0.5)
    report = Report(faults)
    report.add(dataclasses.replace(outcome, ended=2.5))
    assert list(report.explained) == ([cause] if cause else [])
    assert len(report.unexplained) == (cause is None)


@pytest.mark.parametrize(
    ("uses", "fault", "result"),
    [
        (
            {HELD_IN_RUST, GUIDED},
            Fault("plain", frozenset({HELD_IN_RUST}), 0.0, 1.0),
            Result.FAILED,
        ),
        ({HELD_IN_RUST, GUIDED}, WORKER, Result.WRONG),
        ({GUIDED}, Fault("plain", frozenset({HELD_IN_RUST, GUIDED}), 0.0, 1.0), Result.WRONG),
    ],
)
def test_only_dynamos_own_loss_of_text_is_not_wrong(
    uses: set[str], fault: Fault, result: Result
) -> None:
    target = Target("frontend", openai.AsyncOpenAI(api_key="none"), "m")
    report = Report([fault])
    report.add(Outcome(target, frozenset(uses), Result.WRONG, 0.5, 0.6, "x"))
    assert report.results == {result: 1}
    assert len(report.wrong) == (result is Result.WRONG)


def test_an_answer_that_dynamo_reads_again_is_spelled_otherwise() -> None:
    expected = as_whole(CUT["expect"])
    assert '{"name": ' in expected["content"]
    assert spell_whole(CUT, None) == expected
    assert "{name: " in spell_whole(CUT, "hermes")["content"]
