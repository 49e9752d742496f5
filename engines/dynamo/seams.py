"""The seams in Dynamo that are alike for all engines."""

from __future__ import annotations

import functools

from ...base.seams import Seam

PACKAGES = ("ai-dynamo",)

_worker = functools.partial(Seam, role="worker", since="1.6")
_replay = functools.partial(Seam, role="replay", since="1.6", kind="called")

WORKER: tuple[Seam, ...] = (
    _worker(
        name="dynamo.common.utils.token_ids:normalize_request_token_ids",
        kind="called",
        parameters=("request",),
        why="a request has its tokens in one of several forms, which only Dynamo's workers know",
        without="no prompt can be read",
        used_in=(
            "worker/engine_worker.py:Worker.with_postprocessing",
            "testing/replay_worker/engine.py:ReplayEngine.start",
        ),
    ),
    _worker(
        name="dynamo.common.utils.prometheus:register_engine_metrics_callback",
        kind="called",
        keywords=("endpoint", "registry"),
        why="an endpoint serves only metrics that were registered with it",
        without="the worker's /metrics lacks Backedge's",
        used_in=("worker/metrics.py:WorkerMetrics.expose",),
    ),
    _worker(
        name="dynamo._core:get_tool_parser_names",
        kind="called",
        why="Dynamo re-exports the names of its Rust parsers nowhere",
        without="markers of Rust parsers are not found",
        used_in=("worker/stock/rust_names.py:known_in_rust",),
        feature="Dynamo's own parser names",
    ),
    _worker(
        name="dynamo._core:get_reasoning_parser_names",
        kind="called",
        why="Dynamo re-exports the names of its Rust parsers nowhere",
        without="markers of Rust parsers are not found",
        used_in=("worker/stock/rust_names.py:known_in_rust",),
        feature="Dynamo's own parser names",
    ),
    Seam(  # of Python: the parsers that Dynamo and the engines build
        name="argparse:ArgumentParser._option_string_actions",
        kind="read",
        role="flags",
        since="Python 3.10",
        why="argparse does not say otherwise which flags a parser has",
        without="flags that the engine has as well would be added twice",
        used_in=("worker/flags.py:add_flags",),
    ),
    _replay(
        name="dynamo.common.utils.runtime:create_runtime",
        parameters=("discovery_backend", "request_plane"),
        why="Dynamo's own workers make their runtime by it; the binding's constructor changes",
        without="the replay worker has no runtime",
        used_in=("testing/replay_worker/worker.py:serve",),
    ),
    _replay(
        name="dynamo.runtime.logging:configure_dynamo_logging",
        why="Dynamo does not document how a worker of another's logs",
        without="the replay worker logs nothing",
        used_in=("testing/replay_worker/__main__.py:main",),
    ),
)

FRONTEND: tuple[Seam, ...] = ()
