"""What is loaded once is not looked through again."""

from __future__ import annotations

import gc

from backedge.worker.collector import freeze_loaded


def test_what_is_loaded_is_frozen_once() -> None:
    freeze_loaded.cache_clear()
    gc.unfreeze()
    try:
        freeze_loaded()
        frozen = gc.get_freeze_count()
        assert frozen > len(gc.get_objects())
        later = [[number] for number in range(1000)]
        freeze_loaded()
        assert gc.get_freeze_count() == frozen
        assert later
    finally:
        gc.unfreeze()
        freeze_loaded.cache_clear()
