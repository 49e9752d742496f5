"""Run the replay worker.

python -m backedge.worker.replay --tool-call-parser hermes --reasoning-parser qwen3
"""

from __future__ import annotations

import sys

import uvloop
from dynamo.runtime.logging import configure_dynamo_logging

from ...base.errors import BackedgeError
from ...worker.metrics import WorkerMetrics
from .flags import build_flag_parser, build_worker
from .worker import serve


def main() -> None:
    """Run the worker until the process is told to stop."""
    flags = build_flag_parser().parse_args()
    configure_dynamo_logging()
    metrics = WorkerMetrics()
    try:
        worker, model = build_worker(flags, metrics)
    except BackedgeError as error:
        sys.exit(str(error))
    uvloop.run(serve(worker, model, flags, metrics))


if __name__ == "__main__":
    main()
