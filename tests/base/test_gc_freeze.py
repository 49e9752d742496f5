"""The garbage collector leaves alone what was imported."""

import gc

import pytest
from backedge.base import gc_freeze


class Knot:
    """Refers to itself, so only the garbage collector takes it."""

    def __init__(self):
        self.itself = self


@pytest.fixture(autouse=True)
def as_before():
    yield
    gc.enable()
    gc.unfreeze()
    gc_freeze.freeze_loaded.cache_clear()


def test_what_is_imported_is_not_looked_at_again():
    with gc_freeze.importing():
        assert not gc.isenabled()
        kept = Knot()
    assert gc.isenabled()
    assert gc.get_freeze_count()
    assert not any(found is kept for found in gc.get_objects())


def test_an_import_that_fails_leaves_the_collector_on():
    with pytest.raises(ImportError), gc_freeze.importing():
        raise ImportError("no such module")
    assert gc.isenabled()


def test_what_is_loaded_is_frozen_once():
    gc_freeze.freeze_loaded.cache_clear()
    gc.unfreeze()
    gc_freeze.freeze_loaded()
    frozen = gc.get_freeze_count()
    assert frozen > len(gc.get_objects())
    later = Knot()
    gc_freeze.freeze_loaded()
    # Frozen objects are still freed when nothing refers to them, so the count may only fall.
    assert gc.get_freeze_count() <= frozen
    assert any(found is later for found in gc.get_objects())
