"""Other projects' parser cases: exact events at any chunking, apart from the listed goldens."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.conformance import goldens
from tests.conformance.cases import Case, load_cases
from tests.conformance.runner import differs, run, without_outer_space

if not load_cases():
    pytest.skip("there are no cases beside the checkout", allow_module_level=True)

BY_FAMILY: dict[str, list[Case]] = {}
for _case in load_cases():
    BY_FAMILY.setdefault(_case.family, []).append(_case)
every_family = pytest.mark.parametrize("family", sorted(BY_FAMILY))
# Of all native cases, this part may have a listed golden.
MOST_NOT_FOLLOWED = 0.03


def is_followed(case: Case) -> bool:
    """Whether we give what the golden says, but for white space around calls and text."""
    events = run(case)
    return not differs(events, case.golden) or not differs(
        without_outer_space(events), without_outer_space(case.golden)
    )


@every_family
def test_goldens(family: str) -> None:
    """Every golden is followed that is not listed, and none that is listed as a single case."""
    unlisted = [
        case.id
        for case in BY_FAMILY[family]
        if goldens.reason(case.mode, case.id) is None and not is_followed(case)
    ]
    assert unlisted == []


def depends_on_the_cut(case: Case) -> bool:
    whole = run(case)
    return any(run(case, length) != whole for length in (1, 2, 3, 7))


@every_family
def test_the_cut_does_not_matter(family: str) -> None:
    dependent = [case.id for case in BY_FAMILY[family] if depends_on_the_cut(case)]
    assert dependent == []


@pytest.mark.parametrize(("mode", "pattern"), [entry[:2] for entry in goldens.NOT_FOLLOWED])
def test_a_listed_golden_is_still_not_followed(mode: str, pattern: str) -> None:
    listed = [case for case in load_cases() if goldens.matches(mode, pattern, case.mode, case.id)]
    assert listed
    assert not all(is_followed(case) for case in listed)


def test_few_goldens_are_listed() -> None:
    native = [case for case in load_cases() if case.mode == "Native"]
    unified = Counter(goldens.reason(case.mode, case.id) is None for case in native)
    assert unified[False] <= MOST_NOT_FOLLOWED * unified.total()
