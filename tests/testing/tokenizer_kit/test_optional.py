"""Each optional check fails for a tokenizer that breaks its requirement, and no other fails."""

import pytest
from backedge.testing.tokenizer_kit import CHECKS, optional

from tests.tokenization.broken import BROKEN

NAMES = {check.name for check in CHECKS if check.run.__module__ == optional.__name__}
CASES = [broken for broken in BROKEN if broken.check in NAMES]


def test_nearly_every_check_has_a_tokenizer_that_fails_it():
    assert NAMES - {broken.check for broken in CASES} == {"repr"}


@pytest.mark.parametrize("broken", CASES, ids=lambda broken: broken.tokenizer.__name__)
def test_a_broken_tokenizer_fails_the_check_that_it_breaks(broken):
    broken.fail()
