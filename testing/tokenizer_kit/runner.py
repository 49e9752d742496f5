"""The table of all checks, their runner, and the tests for pytest.

Optional checks are skipped if the class lacks the feature.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Literal

import msgspec

from ...tokenization.errors import ContractError, NotInstalledError, TokenizerError, describe_error
from . import optional, required
from .check import Check, TokenizerUnderTest, has_own_attribute
from .samples import CODE, EMOJI, LONG, MULTILINGUAL

CHEAP = "an instance costs no more than tokenizing a document"
SPECIAL = Check(
    "special_toks", "skip_special_tokens hides them", optional.special_toks, "special_toks"
)
REPR = Check("repr", "names the class, no address", optional.readable_repr, "__repr__")
STREAM_CHECKS = (
    Check("stream tokens", "an iterator of lists of str", optional.stream_tokens),
    Check("stream lazy", "an iterator is never read ahead", optional.stream_lazy),
    Check("stream order", "each text's tokens, in order, however many", optional.stream_order),
    Check("stream re-entrant", "a call does not disturb another", optional.stream_reentrant),
)
CHECKS = (
    Check("signatures", "methods accept the contract's arguments", required.signatures, basic=True),
    Check("results", "results have the contract's types", required.results, basic=True),
    Check("endurance", "many calls give equal results", required.endurance, basic=True),
    Check(
        "independent", "a call does not depend on earlier ones", required.independent, basic=True
    ),
    Check("empty", "empty input, empty output: no BOS, no EOS", required.empty),
    Check("multilingual", "decode restores encoded text", required.round_trip(*MULTILINGUAL)),
    Check("emoji", "decode restores encoded text", required.round_trip(*EMOJI)),
    Check("code", "decode restores encoded text", required.round_trip(*CODE)),
    Check("special tokens", "decode restores encoded text", required.special_tokens),
    Check("very long", "decode restores encoded text", required.round_trip(LONG)),
    Check("batch", "encode_batch gives what encode gives", required.batch),
    Check("incremental", "decoding token by token gives what decode gives", required.incremental),
    Check("threads", "concurrent threads get what one gets", required.threads),
    Check("pickle", "an unpickled copy gives equal results", required.pickled_copy("pickle")),
    Check("dill", "a copy by dill gives equal results", required.pickled_copy("dill")),
    Check("construction", CHEAP, required.construction),
    Check("template", "the prompt's text", optional.template, "apply_chat_template"),
    Check("prompt", "the prompt's ids", optional.prompt, "tokenize"),
    *(check._replace(needs="__call__") for check in STREAM_CHECKS),
    SPECIAL,
    REPR,
)
STREAMING_CHECKS = (
    STREAM_CHECKS[0]._replace(basic=True),
    *STREAM_CHECKS[1:],
    Check("pickle", "an unpickled copy gives equal tokens", optional.streaming_copy("pickle")),
    Check("dill", "a copy by dill gives equal tokens", optional.streaming_copy("dill")),
    Check("construction", CHEAP, optional.streaming_construction),
    Check("decode", "the contract's arguments, a str", optional.streaming_decode, "decode"),
    SPECIAL,
    REPR,
)
"""For a class that has only the streaming contract: `tok(texts)` gives lists of str."""


Result = Literal["passed", "failed", "skipped", "missing"]
"""A check is missing if a package that it needs is not installed."""


class Outcome(msgspec.Struct, frozen=True):
    """The result of one check. detail: what it observed, what is wrong, or why it was skipped."""

    check: str
    outcome: Result
    detail: str
    required: bool
    seconds: float


def run(factory: Callable[[], object], checks: Sequence[Check] = CHECKS) -> list[Outcome]:
    """Check the tokenizer that `factory` makes, with a new instance after each failure.

    After a failed basic check the rest is skipped: it would fail for the same reason.
    Raises what `factory` raises.
    """
    target = TokenizerUnderTest(factory)
    target.construct()
    outcomes: list[Outcome] = []
    broken = ""
    for check in checks:
        reason = f"the basics fail: {broken}" if broken else reason_to_skip(check, target)
        outcomes.append(_skip(check, reason) if reason else _run_check(check, target))
        if check.basic and outcomes[-1].outcome == "failed":
            broken = check.name
    return outcomes


def passed(outcomes: Sequence[Outcome]) -> bool:
    """Whether no check failed or was missing; skipped ones do not count."""
    return all(outcome.outcome in ("passed", "skipped") for outcome in outcomes)


def contract_tests(
    factory: Callable[[], object], *, streaming_only: bool = False
) -> Callable[[Check], None]:
    """Return a test function for pytest, with one test per check.

    streaming_only: run `STREAMING_CHECKS` instead of `CHECKS`.
    Assign the function to a name that begins with `test_`.
    """
    import pytest

    target = TokenizerUnderTest(factory)

    checks = STREAMING_CHECKS if streaming_only else CHECKS

    @pytest.mark.parametrize("check", checks, ids=lambda check: check.name)
    def test_contract(check: Check) -> None:
        if reason := reason_to_skip(check, target):
            pytest.skip(reason)
        outcome = _run_check(check, target)
        if not passed([outcome]):
            pytest.fail(outcome.detail, pytrace=False)

    return test_contract


def reason_to_skip(check: Check, target: TokenizerUnderTest) -> str:
    """Return why `check` does not apply; empty if it does."""
    if check.needs and not has_own_attribute(target.instance, check.needs):
        return f"optional: {type(target.instance).__name__} has no {check.needs}"
    return ""


def _skip(check: Check, reason: str) -> Outcome:
    return Outcome(check.name, "skipped", reason, check.required, 0.0)


def _run_check(check: Check, target: TokenizerUnderTest) -> Outcome:
    started = time.perf_counter()
    outcome: Result = "failed"
    try:
        outcome, detail = "passed", check.run(target)
    except NotInstalledError as error:
        outcome, detail = "missing", str(error)
    except (ContractError, TokenizerError) as error:
        detail = str(error)
    except Exception as error:  # noqa: BLE001 - a user's class may raise anything
        detail = f"raised {describe_error(error)}"
    if outcome == "failed":
        target.discard()
    return Outcome(
        check.name, outcome, detail, check.required, round(time.perf_counter() - started, 4)
    )
