"""Runs of all checks, as a report and as tests of pytest."""

import functools
import sys

import pytest
from backedge.testing.tokenizer_kit import CHECKS, STREAMING_CHECKS, contract_tests, passed, run

from tests.tokenization.broken import (
    BROKEN_STREAMS,
    HoldsLambda,
    HoldsLock,
    LosesEmoji,
    NoRepr,
    NoSkip,
    ShowsAddress,
    StreamsAndDecodes,
)
from tests.tokenization.examples import (
    BASE,
    GOOD,
    MISTRAL_FILES,
    MinimalTokenizer,
    StreamsOnly,
    WordTokenizer,
    mistral,
)

OPTIONAL = {check.name for check in CHECKS if not check.required}


@pytest.mark.parametrize("make", GOOD.values(), ids=GOOD)
def test_good_tokenizers_pass(make):
    outcomes = run(make)
    assert passed(outcomes), [outcome for outcome in outcomes if outcome.outcome == "failed"]
    assert {outcome.check for outcome in outcomes if outcome.outcome == "skipped"} <= OPTIONAL


@pytest.mark.parametrize("make", BASE.values(), ids=BASE)
def test_a_base_tokenizer_offers_all_but_a_template(make):
    skipped = {outcome.check for outcome in run(make) if outcome.outcome == "skipped"}
    assert skipped <= {"template", "prompt"}


STREAMS = {"streams only": StreamsOnly, "and decodes": StreamsAndDecodes, **BASE}


@pytest.mark.parametrize("make", STREAMS.values(), ids=STREAMS)
def test_streaming_alone_is_checked_by_itself(make):
    outcomes = run(make, STREAMING_CHECKS)
    optional = {"passed", "skipped"} if make is StreamsOnly else {"passed"}
    assert {outcome.outcome for outcome in outcomes} == optional, outcomes


@pytest.mark.parametrize("broken", BROKEN_STREAMS, ids=lambda broken: broken.tokenizer.__name__)
def test_a_stream_that_is_broken_fails_the_check_that_it_breaks(broken):
    outcomes = run(lambda: broken.tokenizer("model"), STREAMING_CHECKS)
    failed = {outcome.check: outcome.detail for outcome in outcomes if outcome.outcome == "failed"}
    assert failed.keys() == {broken.check}, failed
    assert broken.reason in failed[broken.check]


@pytest.mark.parametrize("make", [NoRepr, ShowsAddress])
def test_a_repr_breaks_nothing(make):
    outcomes = run(lambda: make("model"), STREAMING_CHECKS)
    assert passed(outcomes), outcomes
    assert outcomes[-1].detail.startswith("to improve: repr ")


@pytest.mark.parametrize("make", [HoldsLambda, HoldsLock])
@pytest.mark.parametrize("checks", [CHECKS, STREAMING_CHECKS], ids=["all", "streaming"])
def test_dill_may_do_what_pickle_cannot(checks, make):
    outcomes = run(lambda: make("model"), checks)
    assert passed(outcomes), outcomes
    [pickle] = [outcome for outcome in outcomes if outcome.check == "pickle"]
    assert pickle.detail.startswith("dill is needed (")


@pytest.mark.parametrize("file", MISTRAL_FILES, ids=lambda file: file.name)
def test_mistral_common_passes(file):
    outcomes = run(functools.partial(mistral, file))
    assert passed(outcomes), [outcome for outcome in outcomes if outcome.outcome == "failed"]


# As users write it, in a test file of theirs.
test_words = contract_tests(lambda: WordTokenizer("model"))
test_minimal = contract_tests(MinimalTokenizer)
test_streaming = contract_tests(StreamsOnly, streaming_only=True)


def check(name):
    return next(check for check in CHECKS if check.name == name)


def test_a_pytest_of_a_broken_tokenizer_fails_its_check():
    run = contract_tests(lambda: LosesEmoji("model"))
    with pytest.raises(pytest.fail.Exception, match="'' instead of '😀'"):
        run(check("emoji"))
    run(check("code"))
    with pytest.raises(pytest.skip.Exception, match="optional: LosesEmoji has no tokenize"):
        run(check("prompt"))


def test_a_pickler_that_is_missing_fails_the_users_test(monkeypatch):
    monkeypatch.setitem(sys.modules, "dill", None)
    run = contract_tests(lambda: WordTokenizer("model"))
    with pytest.raises(pytest.fail.Exception, match=r"dill is not installed.*\[kit\]"):
        run(check("dill"))


def test_after_a_failed_basic_check_all_others_are_skipped():
    first, *others = run(lambda: NoSkip("model"))
    assert (first.check, first.outcome) == ("signatures", "failed")
    assert {(other.outcome, other.detail) for other in others} == {
        ("skipped", "the basics fail: signatures")
    }


def test_the_error_of_a_factory_is_raised():
    def factory():
        raise FileNotFoundError("no vocab.txt")

    with pytest.raises(FileNotFoundError):
        run(factory)


def test_a_failed_check_gets_a_new_instance():
    made = []

    def factory():
        made.append(LosesEmoji("model"))
        return made[-1]

    assert not passed(run(factory, [check("emoji"), check("code")]))
    assert len(made) == 2
