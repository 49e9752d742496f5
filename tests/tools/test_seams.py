"""Uses in two versions are compared."""

from __future__ import annotations

import pytest
from backedge.engines.dynamo import seams as dynamo

from tools.seams import Checked, Row, compare, read_body, read_row

BEFORE = Row("m:f", "replaced", "", "", "def f(a):\n    return a")


@pytest.mark.parametrize(
    ("row", "lines"),
    [
        (BEFORE, ["v 2: 1 of 1 uses hold"]),
        (
            Row("m:f", "replaced", "", "", "def f(a):\n    return a + 1"),
            [
                "v 2: 1 of 1 uses hold",
                "  changed (replaced): m:f, 2 lines",
                "      -    return a",
                "      +    return a + 1",
            ],
        ),
        (
            Row("m:f", "called", "", "", ""),
            ["v 2: 1 of 1 uses hold", "  changed (called): m:f, 2 lines"],
        ),
        (
            Row("m:f", "replaced", "groups", "m has no f", ""),
            ["v 2: 0 of 1 uses hold", "  does not hold: m has no f; groups is off"],
        ),
    ],
)
def test_what_has_changed_is_shown(row: Row, lines: list[str]) -> None:
    assert list(compare(Checked("v 2", [row]), {"m:f": BEFORE})) == lines


def test_a_body_has_no_comments_and_no_docstring() -> None:
    seam = dynamo.WORKER[0]
    [use] = seam.uses
    assert read_row(seam, use).fault == ""
    assert read_body(use).startswith("def normalize_request_token_ids(")
    assert '"""' not in read_body(use)
