"""A worker beside an engine that runs in a container of its own, unmodified.

python -m backedge.worker.sidecar --engine grpc://127.0.0.1:50051 --vllm-processing --model MODEL
"""

from __future__ import annotations

import argparse
import sys

from typing_extensions import override

from ..base.engines import load_engine_module
from ..base.errors import SetupError, exiting
from ..base.etcd import check_etcd
from ..base.flags import Flag, add_to, flag
from ..base.ports import check_system_port
from ..base.seams import check_dynamo_installed
from .flags import parse_seconds

try:
    import grpc
    from dynamo.common.backend.engine import LLMEngine
    from dynamo.common.backend.run import run
    from dynamo.common.backend.worker import WorkerConfig

    from .llm_engine import (
        LLMEngineWorker,
        PostprocessedEngine,
        check_dynamo,
        parse_with_dynamos,
        read_flags,
    )
    from .remote_engine import CHANNEL_OPTIONS, RemoteEngine
except ModuleNotFoundError as error:
    if __name__ != "__main__":
        raise
    with exiting():
        check_dynamo_installed()
        raise SetupError(
            f"{error.name} is not installed; in a checkout of Backedge: pip install '.[sidecar]'."
        ) from error

SCHEME = "grpc://"
ENGINES = ("vllm", "sglang")
FLAGS: tuple[Flag, ...] = (
    flag("--engine", required=True, help="The engine's gRPC server, as grpc://HOST:PORT."),
    flag("--model", required=True, help="Folder or name of the model that the engine serves."),
    flag("--served-model-name", help="The name that clients use; default: --model."),
    flag(
        "--engine-timeout-s",
        type=parse_seconds,
        default=1800.0,
        help="Seconds within which the engine must be up, its start included; default: 1800.",
    ),
)


def parse_address(text: str) -> str:
    """Return "host:port" of a URL. Raises `SetupError`."""
    address = text.removeprefix(SCHEME)
    host, colon, port = address.rpartition(":")
    if address == text or not (host and colon and port.isdecimal()):
        raise SetupError(f"--engine {text!r} is not {SCHEME}HOST:PORT.")
    return address


def parse_arguments(argv: list[str]) -> tuple[argparse.Namespace, WorkerConfig]:
    """Parse the sidecar's flags and Dynamo's. Raises SystemExit for a wrong one."""
    parser = argparse.ArgumentParser(prog="python -m backedge.worker.sidecar", allow_abbrev=False)
    add_to(parser, FLAGS)
    kind = parser.add_mutually_exclusive_group(required=True)
    for engine in ENGINES:
        help_ = f"The engine is {engine}; its outputs are post-processed here."
        name = f"--{engine}-processing"
        kind.add_argument(name, dest="kind", action="store_const", const=engine, help=help_)
    return parse_with_dynamos(parser, argv)


class Sidecar(RemoteEngine):
    """The engine of the command line."""

    @classmethod
    @override
    async def from_args(cls, argv: list[str] | None = None) -> tuple[LLMEngine, WorkerConfig]:
        """Build the engine that the flags name, post-processed. Raises SystemExit."""
        engine, config = await build(argv)
        with exiting():
            check_system_port()
            check_etcd(config.discovery_backend)
        return engine, config


async def build(argv: list[str] | None = None) -> tuple[LLMEngine, WorkerConfig]:
    """Build the engine that the flags name, post-processed. Raises SystemExit."""
    with exiting():
        settings, rest = read_flags(argv)
        flags, config = parse_arguments(rest)
        check_dynamo()
        address = parse_address(flags.engine)
        server = load_engine_module(flags.kind, "remote").connect(
            grpc.aio.insecure_channel(address, options=CHANNEL_OPTIONS)
        )
        engine = Sidecar(server, flags.kind, address, config, flags.engine_timeout_s)
        engine.thinks = settings.names.reasoning is not None
        worker = LLMEngineWorker(engine, config, settings)
        engine.on_health = worker.report_engine
        return PostprocessedEngine(engine, worker), config


def main() -> None:
    """Run the worker until the process is told to stop."""
    run(Sidecar, sys.argv[1:])


if __name__ == "__main__":
    main()
