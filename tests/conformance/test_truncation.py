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


def test_every_token() -> None:
    faults: list[str] = []
    for case in NATIVE[::STEP]:
        for end, is_fault in find_faults(case):
            if is_fault:
                faults.append(f"{case.id} behind token {end}")
    assert faults == []
