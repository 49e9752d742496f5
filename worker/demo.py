"""Runs the worker without a model, which replays recorded outputs.

python -m backedge.worker.demo --tool-call-parser hermes --reasoning-parser qwen3
"""

from __future__ import annotations

import runpy

if __name__ == "__main__":
    runpy.run_module("backedge.testing.replay_worker", run_name="__main__", alter_sys=True)
