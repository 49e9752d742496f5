"""`python -m backedge.worker.sglang` runs Dynamo's worker with our flags."""

from __future__ import annotations

import runpy
from typing import Any

import pytest
from backedge.worker import plugin, sglang


def test_the_plugin_is_registered_before_dynamos_worker_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[Any] = []
    monkeypatch.setattr(plugin, "register_sglang", lambda: calls.append("register"))
    monkeypatch.setattr(runpy, "run_module", lambda *args, **kwargs: calls.append((args, kwargs)))
    sglang.main()
    assert calls == [
        "register",
        (("dynamo.sglang",), {"run_name": "__main__", "alter_sys": True}),
    ]
