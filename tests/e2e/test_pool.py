"""Native parsers in processes of their own, on the real engine: same answers, isolated failures."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from pathlib import Path

import openai
import pytest

from tests.e2e.client import Client, ask_transcripts, eventually
from tests.e2e.conftest import VLLM_PARSERS, Fleet
from tests.e2e.test_transcripts import ALL, STREAMED
from tests.support import TRANSCRIPTS, Transcript, as_whole
from tools.stack import Process, metric, worker_is_ready

NATIVE = ("--vllm-processing", "--postprocess-parsers", "native", "--postprocess-workers", "2")
STREAMS = 64


@pytest.fixture(scope="module")
def pooled(fleet: Fleet) -> Iterator[Process]:
    worker = fleet.stack.worker(*NATIVE, *VLLM_PARSERS, name="pooled", wait=False)
    fleet.stack.wait_for_model(fleet.frontend, "pooled")
    yield worker
    (folder,) = {find_folder(pid) for pid in pool_processes(worker)[1:]}
    assert folder.exists()
    worker.terminate()
    # The fork server removes the folder when the worker has ended; `reap` would kill it first.
    wait_until(lambda: not folder.exists(), timeout_s=60.0)
    worker.reap()
    assert eventually(lambda: not pool_processes(worker))  # what is killed ends a little later


@ALL
@STREAMED
def test_gives_exactly_the_transcript(
    fleet: Fleet, pooled: Process, stream: bool, transcript: Transcript
) -> None:
    response = ask_transcripts(fleet.frontend, "pooled")[transcript["id"], stream].result()
    assert response.message == (transcript["expect"] if stream else as_whole(transcript["expect"]))


def test_killed_processes_cost_no_stream_anything(fleet: Fleet, pooled: Process) -> None:
    client = Client(fleet.frontend.url, "pooled")
    cases = [
        TRANSCRIPTS[name]
        for name in ("long_argument", "long_reasoning", "count", "nested_arguments")
    ]
    asked = [cases[number % len(cases)] for number in range(STREAMS)]
    deaths = metric(pooled.url, "backedge_pool_deaths_total")
    with ThreadPoolExecutor(STREAMS) as threads:
        answers = [threads.submit(client.ask, transcript) for transcript in asked]
        wait_until(lambda: metric(pooled.url, "backedge_requests_in_flight") > STREAMS / 8)
        # The fork server started first and is the parent of the others.
        killed = pool_processes(pooled)[1:]
        for pid in killed:
            os.kill(pid, signal.SIGKILL)
        wait_until(
            lambda: (
                metric(pooled.url, "backedge_pool_processes") == 2
                and not {*killed} & {*pool_processes(pooled)}
            )
        )
        messages = [answer.result().message for answer in answers]
    assert messages == [transcript["expect"] for transcript in asked]
    assert metric(pooled.url, "backedge_pool_deaths_total") == deaths + 2


def test_a_parser_that_loops_costs_its_own_request_only(fleet: Fleet) -> None:
    plugin = str(Path(__file__).parent / "looping_parser.py")
    flags = (
        "--tool-parser-plugin",
        plugin,
        "--tool-call-parser",
        "looping",
        "--postprocess-deadline-s",
        "1",
    )
    worker = fleet.stack.worker(*NATIVE, *flags, name="looping")
    fleet.stack.wait_for_model(fleet.frontend, "looping")
    client = Client(fleet.frontend.url, "looping")
    looping = TRANSCRIPTS["tool_call"]
    other = TRANSCRIPTS["count"]
    with ThreadPoolExecutor() as threads:
        raw = threads.submit(client.ask, looping)
        others = [threads.submit(client.ask, other) for _ in range(4)]
        assert [answer.result().message for answer in others] == [other["expect"]] * 4
        text = raw.result().answer.content or ""
    assert "Paris" in text, "the model's own words, unparsed"
    assert metric(worker.url, "backedge_pool_deadline_kills_total") == 1
    assert metric(worker.url, "backedge_parser_errors_total") == 1
    assert "a step took longer than the deadline of 1 s" in worker.log.read_text()
    worker.terminate()
    worker.reap()
    assert eventually(lambda: not pool_processes(worker))  # what is killed ends a little later


def test_a_worker_whose_pool_is_absent_leaves_the_fleet_until_it_serves(
    fleet: Fleet, tmp_path: Path
) -> None:
    """The fork server hangs while it starts, and no request comes meanwhile."""
    plugin = str(Path(__file__).parent / "waiting_parser.py")
    hang = tmp_path / "hang"
    worker = fleet.stack.worker(
        *NATIVE,
        *("--tool-parser-plugin", plugin, "--tool-call-parser", "hermes"),
        name="absent",
        HANG_WHILE_THERE=str(hang),
        DYN_HEALTH_CHECK_ENABLED="true",
        DYN_CANARY_WAIT_TIME="1",
    )
    fleet.stack.wait_for_model(fleet.frontend, "absent")
    client = Client(fleet.frontend.url, "absent")
    count = TRANSCRIPTS["count"]
    hang.touch()
    for pid in pool_processes(worker):
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not worker_is_ready(worker.url), timeout_s=40.0)
    with pytest.raises(openai.InternalServerError) as refused:  # at once: nothing is left to ask
        client.ask(count)
    assert refused.value.status_code == HTTPStatus.SERVICE_UNAVAILABLE
    hang.unlink()
    wait_until(lambda: worker_is_ready(worker.url), timeout_s=40.0)
    assert client.ask(count).message == count["expect"]
    log = worker.log.read_text()
    assert "takes no requests" in log
    assert "is listed again" in log


def pool_processes(worker: Process) -> list[int]:
    """Return the pids of the worker's pool: the fork server, then the others by age."""
    # Of a fork server that has ended, processes go on. Pids begin anew at some number.
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            is_ours = b"backedge.worker.pool.fork_server_main" in (path / "cmdline").read_bytes()
            fields = re.split(r"\s", (path / "stat").read_text().rpartition(")")[2].strip())
        except OSError:
            continue
        if is_ours and fields[0] != "Z" and int(fields[3]) == worker.popen.pid:
            is_forked = int(fields[1]) != worker.popen.pid
            found.append((is_forked, int(fields[19]), int(path.name)))
    return [pid for *_, pid in sorted(found)]


def find_folder(pid: int) -> Path:
    """Return the folder of the pool's sockets, of which the process maps a file."""
    maps = Path(f"/proc/{pid}/maps").read_text()
    (path,) = {line.split()[-1] for line in maps.splitlines() if line.endswith(".step")}
    return Path(path).parent


def wait_until(done: Callable[[], bool], timeout_s: float = 30.0) -> None:
    until = time.monotonic() + timeout_s
    while not done():
        assert time.monotonic() < until
        time.sleep(0.02)
