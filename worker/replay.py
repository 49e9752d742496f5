"""Another name of `backedge.worker.demo`, for commands that have it."""

from __future__ import annotations

import runpy

if __name__ == "__main__":
    runpy.run_module("backedge.testing.replay_worker", run_name="__main__", alter_sys=True)
