"""Runs a worker around transformers, for a model that no engine knows yet.

python -m backedge.worker.transformers --model MODEL --tool-call-parser auto
"""

from __future__ import annotations

import runpy

if __name__ == "__main__":
    runpy.run_module("backedge.engines.transformers.worker", run_name="__main__", alter_sys=True)
