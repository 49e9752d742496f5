"""Run the replay worker.

python -m backedge.worker.demo --tool-call-parser hermes --reasoning-parser qwen3
"""

from __future__ import annotations

from ...base.errors import exiting
from ...base.etcd import check_etcd
from ...base.ports import check_system_port
from ...base.seams import check_seams
from ...engines.dynamo import seams


def main() -> None:
    """Run the worker until the process is told to stop."""
    with exiting(prefix=""):
        check_seams((*seams.WORKER, *seams.REPLAY), seams.PACKAGES)
    import uvloop
    from dynamo.runtime.logging import configure_dynamo_logging

    from .flags import build_flag_parser, build_worker
    from .worker import serve

    flags = build_flag_parser().parse_args()
    configure_dynamo_logging()
    with exiting(prefix=""):
        worker = build_worker(flags)
        check_system_port()
        check_etcd(flags.discovery_backend)
    uvloop.run(serve(worker, flags))


if __name__ == "__main__":
    main()
