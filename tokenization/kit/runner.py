"""All checks of the kit in one table, their runner, and the tests for pytest.

What may be skipped is for those who offer it; what is offered has to be right.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Sequence
from typing import Any, Literal

import msgspec

from ..errors import ContractError, TokenizerError, described
from . import optional, required
from .check import Check, Subject, offers
from .samples import CODE, EMOJI, LONG, MULTILINGUAL

CHECKS = (
    Check("signatures", "methods take the contract's arguments", required.signatures, basic=True),
    Check("results", "results have the contract's types", required.results, basic=True),
    Check("endurance", "calls go on giving the same", required.endurance, basic=True),
    Check(
        "independent", "a call does not depend on those before", required.independent, basic=True
    ),
    Check("empty", "nothing in, nothing out: no BOS, no EOS", required.empty),
    Check("multilingual", "decode gives encoded text back", required.round_trip(*MULTILINGUAL)),
    Check("emoji", "decode gives encoded text back", required.round_trip(*EMOJI)),
    Check("code", "decode gives encoded text back", required.round_trip(*CODE)),
    Check("special tokens", "decode gives encoded text back", required.special_tokens),
    Check("very long", "decode gives encoded text back", required.round_trip(LONG)),
    Check("batch", "encode_batch gives what encode gives", required.batch),
    Check("incremental", "decoding token by token gives what decode gives", required.incremental),
    Check("threads", "threads at once get what one alone gets", required.threads),
    Check("pickle", "an unpickled copy gives the same", required.copied("pickle")),
    Check("dill", "a copy by dill gives the same", required.copied("dill"), package="dill"),
    Check("construction", "reports its time; never fails", required.construction),
    Check("template", "the prompt's text", optional.template, "apply_chat_template"),
    Check("prompt", "the prompt's ids", optional.prompt, "tokenize"),
    Check("stream tokens", "an iterator of lists of str", optional.stream_tokens, "__call__"),
    Check("stream lazy", "a generator is never read ahead", optional.stream_lazy, "__call__"),
    Check(
        "stream order",
        "tokens in the order of the texts",
        optional.stream_order,
        "__call__",
    ),
    Check(
        "stream re-entrant",
        "a call does not disturb another",
        optional.stream_reentrant,
        "__call__",
    ),
    Check(
        "special_toks",
        "skip_special_tokens leaves them out",
        optional.hidden,
        "special_toks",
    ),
    Check("repr", "names the class, no address", optional.readable, "__repr__"),
)


Result = Literal["passed", "failed", "skipped"]


class Outcome(msgspec.Struct, frozen=True):
    """What came of one check. detail: what it saw, what is wrong, or why it was skipped."""

    check: str
    outcome: Result
    detail: str
    required: bool
    seconds: float


def run(factory: Callable[[], Any], checks: Sequence[Check] = CHECKS) -> list[Outcome]:
    """Check the tokenizers that `factory` makes; it is called once, or once more behind each failure.

    Behind a basic check that fails all others are skipped: they would fail for its reason.
    Raises what `factory` raises.
    """
    subject = Subject(factory)
    subject.construct()
    outcomes: list[Outcome] = []
    broken = ""
    for check in checks:
        reason = f"the basics fail: {broken}" if broken else not_tried(check, subject)
        outcomes.append(_skipped(check, reason) if reason else _tried(check, subject))
        if check.basic and outcomes[-1].outcome == "failed":
            broken = check.name
    return outcomes


def passed(outcomes: Sequence[Outcome]) -> bool:
    """Whether nothing has failed; what a class does not offer is not missed."""
    return all(outcome.outcome != "failed" for outcome in outcomes)


def contract_tests(factory: Callable[[], Any]) -> Callable[[Check], None]:
    """Return a test function for pytest, parametrized by the checks; give it a name that begins with `test_`."""
    import pytest

    subject = Subject(factory)

    @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
    def test_contract(check: Check) -> None:
        if reason := not_tried(check, subject):
            pytest.skip(reason)
        outcome = _tried(check, subject)
        if outcome.outcome == "failed":
            pytest.fail(outcome.detail, pytrace=False)

    return test_contract


def not_tried(check: Check, subject: Subject) -> str:
    """Return why `check` does not apply; empty if it does."""
    if check.needs and not offers(subject.made, check.needs):
        return f"optional: {type(subject.made).__name__} has no {check.needs}"
    if check.package and importlib.util.find_spec(check.package) is None:
        return f"{check.package} is not installed"
    return ""


def _skipped(check: Check, reason: str) -> Outcome:
    return Outcome(check.name, "skipped", reason, check.required, 0.0)


def _tried(check: Check, subject: Subject) -> Outcome:
    started = time.perf_counter()
    outcome: Result = "failed"
    try:
        outcome, detail = "passed", check.run(subject)
    except (ContractError, TokenizerError) as error:
        detail = str(error)
    except Exception as error:  # noqa: BLE001 - what a user's class raises where no guard is
        detail = f"raised {described(error)}"
    if outcome == "failed":
        subject.drop()
    return Outcome(
        check.name, outcome, detail, check.required, round(time.perf_counter() - started, 4)
    )
