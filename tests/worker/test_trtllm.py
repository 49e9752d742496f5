"""`python -m backedge.worker.trtllm` runs Dynamo's worker with our flags."""

from __future__ import annotations

import runpy
import sys
from typing import Any

import pytest
from backedge.worker import plugin, trtllm


def test_the_hook_is_there_before_dynamos_worker_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    monkeypatch.setattr(runpy, "run_module", lambda *args, **kwargs: calls.append((args, kwargs)))
    trtllm.main()
    hook = sys.meta_path[0]
    assert isinstance(hook, plugin.Hook)
    assert hook.module_name == "dynamo.trtllm.workers.llm_worker"
    assert calls == [(("dynamo.trtllm",), {"run_name": "__main__", "alter_sys": True})]
