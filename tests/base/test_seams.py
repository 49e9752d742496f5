"""A row of a table of seams is checked without starting anything."""

import dataclasses

import pytest
from backedge.base.errors import SetupError
from backedge.base.seams import Seam, check_seams, find_fault


@dataclasses.dataclass
class Thing:
    """What another project has."""

    declared: int

    def method(self, request, context):
        self.set_in_method = (request, context)
        raise ValueError("far too large")


def seam(path, **fields):
    return Seam(
        name=f"{__name__}:{path}",
        kind="replaced",
        role="worker",
        since="1",
        why="there is no hook",
        without="nothing works",
        **fields,
    )


HOLDS = [
    seam("Thing"),
    seam("Thing.declared"),
    seam("Thing.set_in_method"),
    seam("Thing.method", parameters=("self", "request")),
    seam("Thing.method", contains=("far too large",)),
]
ELSEWHERE = Seam(name="no_such_module:a", kind="read", role="worker", since="1", why="", without="")
FAULTS = [
    (seam("Nothing"), "has no Nothing"),
    (seam("Thing.gone"), "has no Thing.gone"),
    (seam("Thing.method.deeper"), "has no Thing.method.deeper"),
    (seam("Thing.method", parameters=("self", "context")), "in place of (self, context, ...)"),
    (seam("Thing.method", contains=("far too small",)), "has no 'far too small'"),
    (ELSEWHERE, "cannot be imported"),
]


@pytest.mark.parametrize("row", HOLDS, ids=lambda row: row.path)
def test_what_is_there_holds(row):
    assert find_fault(row) is None


@pytest.mark.parametrize(("row", "fault"), FAULTS)
def test_what_is_missing_is_said(row, fault):
    assert fault in (find_fault(row) or "")
    with pytest.raises(SetupError, match=r"installed: msgspec \d"):
        check_seams([row], ["msgspec"])


def test_a_feature_alone_stops_no_process():
    check_seams([seam("Nothing", feature="groups of tokens")], [])
