"""Builds the recorder of a worker's requests from its flags."""

from __future__ import annotations

import importlib.metadata

import msgspec

from ..recording.flags import RecordSettings
from ..recording.recorder import Recorder
from ..recording.recording import RecordedModel
from ..recording.redaction import Redactor
from ..recording.writer import RecordingWriter
from ..tokenization.detokenizer import DetokenizerFactory
from .metrics import WorkerMetrics


def build_recorder(
    settings: RecordSettings | None,
    model: RecordedModel,
    detokenizers: DetokenizerFactory,
    metrics: WorkerMetrics,
) -> Recorder | None:
    """Return the recorder, whose writer counts in `metrics`; None without `settings`.

    model: without the version of Backedge.
    """
    if settings is None:
        return None
    writer = RecordingWriter(settings, "worker")
    metrics.recordings = writer.counts
    version = importlib.metadata.version("backedge")
    model = msgspec.structs.replace(model, backedge_version=version)
    return Recorder(settings, writer, "worker", model, lambda: Redactor(detokenizers))
