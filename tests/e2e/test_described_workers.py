"""A description that no table holds, in workers whose engines replay outputs."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping

import pytest

from tests.e2e.client import Client
from tests.e2e.conftest import AUTO_PARSERS
from tests.e2e.forked import TRTLLM, ForkingStack
from tests.e2e.test_described_plain import TALKED, build_request, write_files
from tools.stack import HUGGINGFACE_FRONTEND, REPLAY_WORKER, Process, Stack

COMMANDS = {"replay": REPLAY_WORKER, "contract": ("-m", "tests.e2e.contract_engine")}
KINDS = ("auto", "native")
WORKERS = list(itertools.product((*COMMANDS, "trtllm"), KINDS))


def start_worker(stack: Stack, command: str, kind: str, files: Mapping[str, str]) -> None:
    name, parsers = f"{command}-{kind}", (*AUTO_PARSERS, "--postprocess-parsers", kind)
    if command == "trtllm":
        stack.trtllm(
            *("--trtllm-processing", *parsers),
            model=files["--model"],
            name=name,
            module=TRTLLM,
            wait=False,
            DYN_NAMESPACE=name,
            STANDIN_TRANSCRIPTS=files["--transcripts"],
        )
    else:
        flags = (*itertools.chain.from_iterable(files.items()), *parsers, "--namespace", name)
        stack.replay(*flags, name=name, command=COMMANDS[command], wait=False)


@pytest.fixture(scope="module")
def frontend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    folder = tmp_path_factory.mktemp("described")
    files = write_files(folder)
    with ForkingStack(folder / "stack") as stack:
        for command, kind in WORKERS:
            start_worker(stack, command, kind, files)
        frontend = stack.frontend(command=HUGGINGFACE_FRONTEND, wait=False)
        for command, kind in WORKERS:
            stack.wait_for_model(frontend, f"{command}-{kind}")
        yield frontend


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(("command", "kind"), WORKERS)
def test_reasoning_and_calls_are_read(
    frontend: Process, command: str, kind: str, stream: bool
) -> None:
    client = Client(frontend.url, f"{command}-{kind}")
    assert client.ask(build_request("talk"), stream=stream).message == TALKED
    [call] = client.ask(build_request("typed"), stream=stream).message["tool_calls"]
    assert json.loads(call["arguments"]) == {"zone": 5, "days": 3}
