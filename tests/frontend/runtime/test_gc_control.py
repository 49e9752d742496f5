"""The garbage collector leaves alone what was imported."""

import gc

import pytest
from backedge.frontend.runtime import gc_control


class Knot:
    """Refers to itself, so only the garbage collector takes it."""

    def __init__(self):
        self.itself = self


@pytest.fixture(autouse=True)
def as_before():
    yield
    gc.enable()
    gc.unfreeze()


def test_what_is_imported_is_not_looked_at_again():
    with gc_control.importing():
        assert not gc.isenabled()
        kept = Knot()
    assert gc.isenabled()
    assert gc.get_freeze_count()
    assert not any(found is kept for found in gc.get_objects())


def test_an_import_that_fails_leaves_the_collector_on():
    with pytest.raises(ImportError), gc_control.importing():
        raise ImportError("no such module")
    assert gc.isenabled()
