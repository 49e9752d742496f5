"""Builds the post-processing of a worker from its settings."""

from __future__ import annotations

import importlib.metadata

import msgspec

from ..base.flags import OFF, ON
from ..base.log import get_logger
from ..parsers.base import ParserFactory, ParserNames
from ..parsers.parser_lookup import uses_native
from ..recording.flags import RecordSettings
from ..recording.recorder import Recorder
from ..recording.recording import RecordedModel
from ..recording.redaction import Redactor
from ..recording.writer import RecordingWriter
from ..tokenization.detokenizer import DetokenizerFactory
from .backend import InlineBackend
from .flags import MS_PER_S, WorkerSettings
from .metrics import WorkerMetrics
from .pool import PoolSupervisor
from .request_check import show_refusal
from .request_stream import WorkerPostprocessor
from .stock_frontends import build_stock_postprocessor, find_markers

logger = get_logger(__name__)


def build_postprocessors(
    settings: WorkerSettings,
    parsers: ParserFactory,
    tokenizer: object,
    detokenizers: DetokenizerFactory,
    pool: PoolSupervisor | None,
    model: RecordedModel,
    in_rust: ParserNames,
    metrics: WorkerMetrics,
) -> tuple[WorkerPostprocessor, WorkerPostprocessor | None]:
    """Return the post-processors for Backedge's and for stock frontends; None: not wanted.

    pool: None to post-process in this process. model: without parsers and version of Backedge.
    in_rust: the parsers of stock frontends. tokenizer: named in the log.
    Logs what this worker does.
    """
    metrics.pool, metrics.engine = pool, model.engine
    postprocess = settings.postprocess
    kind = "native" if uses_native(settings.parsers, settings.names) else "linear"
    model = msgspec.structs.replace(model, parsers=settings.names, kind=kind)
    processes = 0 if pool is None else pool.size
    logger.info(
        "backedge %s post-processes in this worker of %s %s: %s",
        importlib.metadata.version("backedge"),
        model.engine,
        model.engine_version,
        describe_settings(settings, f"{kind} parsers {parsers.name}", tokenizer, processes),
    )
    recorder = build_recorder(settings.record, model, detokenizers, metrics)
    own = WorkerPostprocessor(
        pool or InlineBackend(detokenizers, parsers, postprocess, metrics.report),
        metrics,
        show_refusal,
        recorder=recorder,
    )
    if not settings.stock_frontends:
        return own, None
    markers = find_markers(in_rust, settings.names)
    return own, build_stock_postprocessor(
        detokenizers, markers, postprocess, metrics, show_refusal, recorder
    )


def describe_settings(
    settings: WorkerSettings, parsers: str, tokenizer: object, processes: int
) -> str:
    """Return what the flags select, for the log. parsers: their kind and names."""
    postprocess = settings.postprocess
    delays = msgspec.structs.asdict(postprocess.delays).items()
    where = f"in {processes} processes" if processes else "inline"
    record = settings.record
    return (
        f"{parsers}, detokenizer {settings.detokenizer}, tokenizer {type(tokenizer).__module__}."
        f"{type(tokenizer).__qualname__}, {where}, on error {postprocess.on_error}, "
        f"malformed calls {postprocess.malformed_calls}, merge delays "
        f"{' '.join(f'{name} {seconds * MS_PER_S:g} ms' for name, seconds in delays)}, "
        f"stock frontends {ON if settings.stock_frontends else OFF}, "
        f"recordings {'none' if record is None else record.folder}"
    )


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
