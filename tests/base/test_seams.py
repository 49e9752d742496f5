"""A row of a table of seams is checked without starting anything."""

import dataclasses
import functools

import msgspec
import pytest
from backedge.base.errors import SetupError
from backedge.base.seams import Seam, check_seams, find_fault, read_table, replace


@dataclasses.dataclass
class Thing:
    """What another project has."""

    declared: int

    def method(self, request, context):
        self.set_in_method = (request, context)
        raise ValueError("far too large")

    def bare(self, optional=None, *rest, **more):
        return optional, rest, more

    @staticmethod
    def static(value):
        return value


BUILTIN = functools.cache(len).cache_clear  # it has no signature


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


def called(path):
    return msgspec.structs.replace(seam(path), kind="called")


HOLDS = [
    called("Thing.bare"),
    called("BUILTIN"),
    seam("Thing"),
    seam("Thing.declared"),
    seam("Thing.set_in_method"),
    seam("Thing.method", parameters=("self", "request")),
    seam("Thing.method", keywords=("context",)),
    seam("Thing.method", contains=("far too large",)),
    seam("", contains=("far too large",)),
]
ELSEWHERE = Seam(
    name="no_such_module:a", kind="read", role="worker", since="1", why="", without="nothing works"
)
FAULTS = [
    (called("Thing.method"), "needs request, context"),
    (called("HOLDS"), "cannot be called"),
    (seam("Nothing"), "has no Nothing"),
    (seam("Thing.gone"), "has no Thing.gone"),
    (seam("Thing.method.deeper"), "has no Thing.method.deeper"),
    (seam("Thing.method", parameters=("self", "context")), "in place of (self, context, ...)"),
    (seam("Thing.set_in"), "has no Thing.set_in"),
    (seam("Thing.method", keywords=("sender",)), "takes no sender"),
    (seam("HOLDS", parameters=("self",)), "cannot be called"),
    (seam("Thing.method", contains=("far too small",)), "has no 'far too small'"),
    (ELSEWHERE, "cannot be imported"),
]


@pytest.mark.parametrize("row", HOLDS, ids=lambda row: row.path)
def test_what_is_there_holds(row):
    assert find_fault(row) is None


@pytest.mark.parametrize(("row", "fault"), FAULTS)
def test_what_is_missing_is_said_with_the_versions(row, fault):
    assert fault in (find_fault(row) or "")
    with pytest.raises(SetupError, match=r"without which nothing works \(found msgspec \d"):
        check_seams([row], ["msgspec"])


def test_a_feature_is_switched_off_with_one_warning(caplog):
    rows = [seam("Nothing", feature="groups"), seam("None", feature="groups"), seam("Thing")]
    assert check_seams(rows, ["msgspec"]) == {"groups"}
    [record] = caplog.records
    assert "groups is off" in record.message
    assert "msgspec" in record.message


def test_a_function_is_replaced_and_stays_static(monkeypatch):
    monkeypatch.setattr(Thing, "static", staticmethod(Thing.static))
    replace(seam("Thing.static"), lambda old: lambda value: old(value) + 1)
    assert Thing.static(1) == Thing(0).static(1) == 2


TABLE = """\
== flags 1.0
called alone
    why: it is private
    without: no flags
    used_in: worker.py:a
== worker Python 3.10
replaced f(a, b) Owner.g(self, *, key)
text Owner.h `self.step(` `x =
        1`
    of: module:
    why: there is no
        hook
    without: nothing works
    used_in: worker.py:Worker tests/x.py:y
    feature: a feature
"""


def test_a_table_is_read():
    alone, first, second, text = read_table("engines/e/", TABLE)
    assert (alone.name, alone.kind, alone.role, alone.since) == ("alone", "called", "flags", "1.0")
    assert alone.how_checked == "needs no argument"
    assert (first.name, first.parameters, first.keywords) == ("module:f", ("a", "b"), ())
    assert (second.path, second.parameters, second.keywords) == ("Owner.g", ("self",), ("key",))
    assert (text.kind, text.contains) == ("text", ("self.step(", "x = 1"))
    assert {row.since for row in (first, second, text)} == {"Python 3.10"}
    assert {row.why for row in (first, second, text)} == {"there is no hook"}
    assert text.used_in == ("engines/e/worker.py:Worker", "tests/x.py:y")
    assert (alone.feature, text.feature) == ("", "a feature")


@pytest.mark.parametrize(("old", "new"), [("called", "seen"), ("== flags", "== none")])
def test_a_table_knows_its_words(old, new):
    with pytest.raises(msgspec.ValidationError, match="Invalid enum value"):
        read_table("", TABLE.replace(old, new))


def test_without_dynamo_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(SetupError, match=r"ai-dynamo is not installed.*'\.\[light\]'"):
        check_seams([], ["ai-dynamo"])
    assert check_seams([], ["msgspec"]) == frozenset()
