"""A description that no table holds, and plain workers: the frontend parses it in processes."""

from __future__ import annotations

import itertools
import json
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.client import Client, Response, eventually, streamed
from tests.e2e.conftest import AUTO_PARSERS
from tests.e2e.test_pool import find_folder, pool_processes
from tests.parsers.made_up import ENDLESS, MADE_UP, STUCK, TALK, TOOL, write_model
from tools.stack import HUGGINGFACE_FRONTEND, Process, Stack, metric

NAME = "endless"
DESCRIPTION = {**MADE_UP, "fields": {**MADE_UP["fields"], "tool_calls": ENDLESS}}
CALL = '<|muse|>Which zone?<|hush|>\n<|act|>get_time<|with|>{"zone": "Rome", "days": "3"}xyz'
TYPED = CALL.replace('"Rome"', "5")
OUTPUTS = {"talk": TALK, "call": CALL, "typed": TYPED, "stuck": STUCK}
PARSERS = ("--tool-call-parser", "template", "--reasoning-parser", "template")


def build_request(question: str) -> Any:
    return {"messages": [{"role": "user", "content": question}], "tools": [TOOL]}


def ask(frontend: Process, question: str, *, stream: bool) -> Response:
    return Client(frontend.url, NAME).ask(build_request(question), stream=stream)


def write_files(folder: Path) -> dict[str, str]:
    """Write a described model and its transcripts; return them by the flags that name them."""
    transcripts = folder / "transcripts"
    transcripts.mkdir()
    rows = [
        {"id": question, **build_request(question), "output": f"{output}<|im_end|>"}
        for question, output in OUTPUTS.items()
    ]
    (transcripts / "made_up.jsonl").write_text("\n".join(map(json.dumps, rows)))
    model = write_model(folder / "model", DESCRIPTION)
    return {"--model": str(model), "--transcripts": str(transcripts)}


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp(NAME)
    with Stack(folder / "stack") as stack:
        files = itertools.chain.from_iterable(write_files(folder).items())
        stack.replay("--plain", *files, "--tokens-per-second", "50", name=NAME, wait=False)
        yield stack


def start_frontend(stack: Stack, *flags: str) -> Process:
    frontend = stack.frontend(*PARSERS, *flags, command=HUGGINGFACE_FRONTEND, wait=False)
    stack.wait_for_model(frontend, NAME)
    return frontend


@pytest.fixture(scope="module")
def frontend(stack: Stack) -> Process:
    return start_frontend(stack)


TALKED = {
    "reasoning": "Which zone?",
    "content": "A moment, please.",
    "tool_calls": [],
    "finish_reason": "stop",
}


@pytest.mark.parametrize("stream", [True, False])
def test_reasoning_and_calls_are_read(frontend: Process, stream: bool) -> None:
    assert ask(frontend, "talk", stream=stream).message == TALKED
    assert ask(frontend, "call", stream=stream).message == {
        "reasoning": "Which zone?",
        "content": None,
        "tool_calls": [{"name": "get_time", "arguments": '{"zone": "Rome", "days": 3}'}],
        "finish_reason": "tool_calls",
    }


def test_auto_finds_the_description(stack: Stack) -> None:
    found = start_frontend(stack, *AUTO_PARSERS)
    assert ask(found, "talk", stream=True).message == TALKED
    [call] = ask(found, "call", stream=True).message["tool_calls"]
    assert json.loads(call["arguments"]) == {"zone": "Rome", "days": 3}


def test_native_parsers_give_values_the_types_of_transformers(
    frontend: Process, stack: Stack
) -> None:
    native = start_frontend(stack, "--postprocess-parsers", "native")
    for server in (frontend, native):
        [call] = ask(server, "typed", stream=True).message["tool_calls"]
        assert json.loads(call["arguments"]) == {"zone": 5, "days": 3}


def test_an_expression_that_does_not_end_costs_its_own_request_only(frontend: Process) -> None:
    with ThreadPoolExecutor() as threads:
        stuck = threads.submit(ask, frontend, "stuck", stream=True)
        others = [threads.submit(ask, frontend, "talk", stream=True) for _ in range(6)]
        assert [other.result().message for other in others] == [TALKED] * 6
    answer = stuck.result().answer
    assert (answer.content or "").startswith("I ask.")
    assert (answer.content or "").endswith("x!")
    assert not answer.tool_calls
    assert "took longer than the deadline of 2 s" in frontend.log.read_text()


def test_killed_processes_cost_no_stream_anything(frontend: Process) -> None:
    client, request = Client(frontend.url, NAME), build_request("talk")
    chunks = client.openai.chat.completions.create(model=NAME, **request, stream=True)
    first = next(chunks)
    killed = pool_processes(frontend)[1:]  # one for every 8 cores
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    assert streamed(itertools.chain([first], chunks)).message == TALKED
    assert killed
    deaths = "backedge_pool_deaths_total"
    assert eventually(lambda: metric(frontend.url, deaths) == len(killed))
    log = frontend.log.read_text()
    assert all(f"process {pid} of the pool died" in log for pid in killed)
    assert metric(frontend.url, "backedge_pool_deadline_kills_total") == 1, "the stuck one's"
    assert metric(frontend.url, "backedge_parser_errors_total") == 1


def test_the_processes_end_with_the_frontend(frontend: Process) -> None:
    processes = pool_processes(frontend)
    folder: Path = find_folder(processes[-1])
    frontend.terminate()
    assert eventually(lambda: not folder.exists())
    frontend.reap()
    assert eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in processes))
