"""Transcripts through a real etcd and a real NATS, as in a cluster."""

from __future__ import annotations

import importlib.metadata
import json
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from backedge.cli.main import main
from click.testing import CliRunner

from tests.e2e.client import Client
from tests.e2e.conftest import AUTO_PARSERS, BACKEDGE_MODEL
from tests.e2e.forked import ForkingStack
from tests.machine import needs, require
from tests.support import TRANSCRIPTS
from tools.stack import LOOPBACK, Process, fetch, free_port

pytestmark = needs("etcd", "nats-server")


@dataclass
class Servers:
    """The URLs of etcd and NATS, and a folder for the stack."""

    etcd: str
    nats: str
    folder: Path


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    folder = tmp_path_factory.mktemp("discovery")
    client, peer, nats = (f"http://{LOOPBACK}:{free_port()}" for _ in range(3))
    with ExitStack() as running:
        start(running, folder, "etcd", *build_etcd_flags(folder, client, peer))
        address = ("-a", LOOPBACK, "-p", nats.rpartition(":")[2])
        start(running, folder, "nats-server", *address, "-js", "-sd", str(folder))
        yield Servers(client, nats.replace("http", "nats"), folder)


@pytest.fixture(scope="module")
def frontend(servers: Servers) -> Iterator[Process]:
    with ForkingStack(
        servers.folder / "stack",
        DYN_DISCOVERY_BACKEND="etcd",
        DYN_EVENT_PLANE="nats",
        DYN_REQUEST_PLANE="nats",
        ETCD_ENDPOINTS=servers.etcd,
        NATS_SERVER=servers.nats,
    ) as stack:
        worker = stack.worker("--vllm-processing", *AUTO_PARSERS, wait=False)
        frontend = stack.frontend(wait=False)
        stack.wait_for_model(frontend)
        assert worker.popen.poll() is None
        assert fetch(servers.etcd + "/health")
        yield frontend


def build_etcd_flags(folder: Path, client: str, peer: str) -> list[str]:
    return [
        "--data-dir",
        str(folder / "etcd"),
        "--listen-client-urls",
        client,
        "--advertise-client-urls",
        client,
        "--listen-peer-urls",
        peer,
        "--initial-advertise-peer-urls",
        peer,
        "--initial-cluster",
        f"default={peer}",
    ]


def start(running: ExitStack, folder: Path, command: str, *flags: str) -> None:
    """Start a server that ends with `running`."""
    log = running.enter_context((folder / f"{command}.log").open("wb"))
    executable = require(command)
    assert executable is not None
    process = subprocess.Popen([executable, *flags], stdout=log, stderr=subprocess.STDOUT)
    running.callback(process.wait)
    running.callback(process.terminate)


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("name", ["reasoning_call", "multilingual_text", "stop_in_reasoning"])
def test_gives_the_transcript(frontend: Process, name: str, stream: bool) -> None:
    transcript = TRANSCRIPTS[name]
    assert (
        Client(frontend.url, BACKEDGE_MODEL).ask(transcript, stream=stream).message
        == transcript["expect"]
    )


def test_doctor_reads_the_cards_from_etcd(frontend: Process, servers: Servers) -> None:
    words = ["doctor", frontend.url, "--discovery", servers.etcd, "--json"]
    result = CliRunner().invoke(main, words)
    found = {one["topic"]: one for one in json.loads(result.stdout)["findings"]}
    assert result.exit_code == 0
    engine = f"vllm {importlib.metadata.version('vllm')} post-processing with hermes and qwen3"
    assert engine in found[BACKEDGE_MODEL]["message"]
