"""The garbage collector leaves alone what was imported, and takes what a model leaves behind."""

import asyncio
import gc
import weakref

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


def test_with_a_model_goes_what_it_held(monkeypatch):
    monkeypatch.setattr(gc_control, "COLLECT_AFTER_S", 0.01)

    async def run():
        gone = asyncio.Event()

        class Model:
            def __init__(self):
                self.tokenizer = Knot()

        model = Model()
        weakref.finalize(model.tokenizer, gone.set)
        gc_control.collect_after(model)
        gc.disable()  # nobody else may take it
        del model
        assert not gone.is_set()
        await asyncio.wait_for(gone.wait(), 10)

    asyncio.run(run())
