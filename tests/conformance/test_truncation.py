"""Cut behind any token, a case shows a beginning of what it shows when it is whole."""

from __future__ import annotations

import pytest

from tests.conformance.cases import load_cases
from tests.conformance.truncation import find_faults
from tests.pairwise import WHOLE

NATIVE = [case for case in load_cases() if case.mode == "Native"]
if not NATIVE:
    pytest.skip("there are no cases beside the checkout", allow_module_level=True)

# One case in so many; all with WHOLE_MATRICES.
STEP = 1 if WHOLE else 4
MOST_FAULTS = 0.001
# By case, what is shown that the whole answer does not have.
LISTED = dict.fromkeys(
    ("muse_glimmer-tool_in_reason", "muse_glimmer-tool_in_reason_with_text"),
    'the beginning of a header, " to", which is a word as well',
)


def test_every_token() -> None:
    cuts = 0
    faults: list[str] = []
    for case in NATIVE[::STEP]:
        for end, is_fault in find_faults(case):
            cuts += 1
            if is_fault:
                faults.append(f"{case.id} behind token {end}")
    assert [fault for fault in faults if fault.partition(" ")[0] not in LISTED] == []
    assert len(faults) <= MOST_FAULTS * cuts


def test_a_listed_fault_is_still_one() -> None:
    listed = [case for case in NATIVE if case.id in LISTED]
    assert {case.id for case in listed} == set(LISTED)
    assert all(any(is_fault for _, is_fault in find_faults(case)) for case in listed)
