"""Families of samples; what Dynamo serves of them, the metrics of workers and frontends test."""

from __future__ import annotations

from typing import Any

import pytest
from backedge.engines.dynamo.metrics import count_recordings, counter, gauge
from backedge.recording.writer import RecordingCounts
from backedge.worker.metrics import WorkerMetrics
from dynamo.common.utils import prometheus


def samples(made: Any) -> dict[tuple[str, ...], float]:
    return {(made.type, *sample.labels.values()): sample.value for sample in made.samples}


def test_one_number_and_numbers_by_label() -> None:
    assert samples(gauge("depth", "Depth.", 3)) == {("gauge",): 3}
    by_label = counter("requests", "Requests.", {"finished": 2, "failed": 0}, "outcome")
    assert samples(by_label) == {("counter", "finished"): 2, ("counter", "failed"): 0}


def test_recordings_are_counted_by_result() -> None:
    results, written = count_recordings(RecordingCounts())
    assert set(samples(results).values()) == {0}
    assert samples(written) == {("counter",): 0}


def test_a_process_starts_without_metrics_if_dynamo_cannot_add_them(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    registered: list[Any] = []
    register = "register_engine_metrics_callback"
    monkeypatch.setattr(
        prometheus, register, lambda endpoint, registry: registered.append(endpoint)
    )
    endpoint: Any = object()
    WorkerMetrics().expose(endpoint)
    assert registered == [endpoint]
    monkeypatch.delattr(prometheus, register)
    WorkerMetrics().expose(endpoint)
    assert [record.message.partition(":")[0] for record in caplog.records] == [
        "Backedge's metrics is off"
    ]
