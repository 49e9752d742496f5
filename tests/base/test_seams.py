"""Seams are checked without starting anything."""

import dataclasses
import functools

import pytest
from backedge.base.errors import SetupError
from backedge.base.seams import Seam, Use, called, check_seams, find_fault, replace, replaced, text


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


def use(path, takes="", *contains, kind="replaced"):
    return Use(kind, f"{__name__}:{path}", takes, contains)


def seam(*uses, feature=""):
    return Seam(
        *uses,
        why="there is no hook",
        without="nothing works",
        feature=feature,
    )


HOLDS = [
    use("Thing.bare", kind="called"),
    use("BUILTIN", kind="called"),
    use("Thing"),
    use("Thing.declared"),
    use("Thing.set_in_method"),
    use("Thing.method", "self, request"),
    use("Thing.method", "*, context"),
    use("Thing.method", "self, *, context", "far too large"),
    use("", "", "far too large"),
]
FAULTS = [
    (use("Thing.method", kind="called"), "needs request, context"),
    (use("HOLDS", kind="called"), "cannot be called"),
    (use("Nothing"), "has no Nothing"),
    (use("Thing.gone"), "has no Thing.gone"),
    (use("Thing.method.deeper"), "has no Thing.method.deeper"),
    (use("Thing.method", "self, context"), "in place of (self, context, ...)"),
    (use("Thing.set_in"), "has no Thing.set_in"),
    (use("Thing.method", "self, *, sender"), "takes no sender"),
    (use("HOLDS", "self"), "cannot be called"),
    (use("Thing.method", "", "far too small"), "has no 'far too small'"),
    (Use("read", "no_such_module:a"), "cannot be imported"),
]


@pytest.mark.parametrize("used", HOLDS, ids=lambda used: used.path)
def test_what_is_there_holds(used):
    assert find_fault(used) is None


@pytest.mark.parametrize(("used", "fault"), FAULTS)
def test_what_is_missing_is_said_with_the_versions(used, fault):
    assert fault in (find_fault(used) or "")
    with pytest.raises(SetupError, match=r"without which nothing works \(found msgspec \d"):
        check_seams([seam(used)], ["msgspec"])
    with pytest.raises(SetupError):
        check_seams([seam(HOLDS[0], used)], ["msgspec"])


def test_a_feature_is_switched_off_with_one_warning(caplog):
    gone = seam(use("Nothing"), use("None"), feature="groups")
    assert check_seams([gone, gone, seam(use("Thing"))], ["msgspec"]) == {"groups"}
    [record] = caplog.records
    assert "groups is off" in record.message
    assert "msgspec" in record.message


def test_a_function_is_replaced_and_stays_static(monkeypatch):
    monkeypatch.setattr(Thing, "static", staticmethod(Thing.static))
    replace(use("Thing.static"), lambda old: lambda value: old(value) + 1)
    assert Thing.static(1) == Thing(0).static(1) == 2


def test_parameters_are_given_in_order_and_by_name_after_a_star():
    taken = called("m:f", "self, request, *, stream, rid")
    assert (taken.kind, taken.parameters, taken.keywords) == (
        "called",
        ("self", "request"),
        ("stream", "rid"),
    )
    assert taken.how_checked == "takes (self, request, ...); takes stream, rid by name"
    assert called("m:f").how_checked == "needs no argument"
    assert text("m:f", "a(", "b(").how_checked == "its source has 'a(', 'b('"
    assert replaced("m:f").how_checked == "exists"


def test_without_dynamo_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(SetupError, match=r"ai-dynamo is not installed.*'\.\[light\]'"):
        check_seams([], ["ai-dynamo"])
    assert check_seams([], ["msgspec"]) == frozenset()
