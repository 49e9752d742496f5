import functools

import pytest
from backedge.tokenization.kit import CHECKS, passed, run

from tests.tokenization.broken import BROKEN
from tests.tokenization.examples import BASE, GOOD, MISTRAL_FILES, mistral

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


@pytest.mark.parametrize("file", MISTRAL_FILES, ids=lambda file: file.name)
def test_mistral_common_passes(file):
    outcomes = run(functools.partial(mistral, file))
    assert passed(outcomes), [outcome for outcome in outcomes if outcome.outcome == "failed"]


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.tokenizer.__name__)
def test_a_broken_tokenizer_fails_the_check_that_it_breaks(broken):
    outcomes = run(lambda: broken.tokenizer("model"))
    failed = {outcome.check: outcome.detail for outcome in outcomes if outcome.outcome == "failed"}
    assert failed.keys() == {broken.check}, failed
    assert broken.reason in failed[broken.check]
    assert not passed(outcomes)
