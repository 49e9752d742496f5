"""The claims of `worker_cost`, and its comparison of texts."""

from __future__ import annotations

import pytest

from benchmarks.answers import Texts
from benchmarks.worker_cost import OURS, CostRow, check_claims, differences, parse_counts


@pytest.mark.parametrize(
    ("short", "long", "wrong", "held"),
    [
        (1.9, 1.9, "", [True, True]),
        (1.5, 1.9, "", [True, False]),
        (1.9, 2.1, "", [False, True]),
        (1.9, 1.9, "content", [False, True]),
    ],
)
def test_claims(short: float, long: float, wrong: str, held: list[bool]) -> None:
    rows = [CostRow(OURS, "content", {1000: short, 64000: long}, wrong)]
    assert [claim.held for claim in check_claims(rows)] == held


def test_peers_have_no_claims() -> None:
    assert not list(check_claims([CostRow("dynamo", "content", {1000: 9.0, 64000: None})]))


def test_only_white_space_around_a_text_is_no_difference() -> None:
    assert not differences(Texts(" a ", "b\n"), Texts("a", "b"))
    assert differences(Texts("a b", "", "{}"), Texts("ab", "", "{")) == "content, arguments"


def test_counts() -> None:
    assert parse_counts("1,2,16") == [1, 2, 16]
