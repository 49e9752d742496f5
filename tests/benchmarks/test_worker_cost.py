"""The comparison of texts in `worker_cost`, and its flags."""

from __future__ import annotations

from benchmarks.answers import Texts
from benchmarks.worker_cost import differences, parse_counts


def test_only_white_space_around_a_text_is_no_difference() -> None:
    assert not differences(Texts(" a ", "b\n"), Texts("a", "b"))
    assert differences(Texts("a b", "", "{}"), Texts("ab", "", "{")) == "content, arguments"


def test_counts() -> None:
    assert parse_counts("1,2,16") == [1, 2, 16]
