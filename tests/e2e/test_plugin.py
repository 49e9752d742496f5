"""A tool parser plugin that raises costs only its own request, and is counted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import openai
import pytest

from tests.e2e.client import Client
from tests.e2e.conftest import Fleet
from tests.support import TRANSCRIPTS
from tools.stack import Process, metric

PLUGIN = Path(__file__).with_name("explosive_parser.py")
FLAGS = (
    "--vllm-processing",
    "--tool-parser-plugin",
    str(PLUGIN),
    "--tool-call-parser",
    "explosive",
)
ERRORS = "backedge_parser_errors_total"
# Its call is for Paris; the other transcript's is not.
EXPLODES, HARMLESS = TRANSCRIPTS["tool_call"], TRANSCRIPTS["text_call"]


def raw(name: str) -> str:
    return str(TRANSCRIPTS[name]["output"]).removesuffix("<|im_end|>")


@pytest.fixture(scope="module", params=["degrade", "fail"])
def worker(request: pytest.FixtureRequest, fleet: Fleet) -> Iterator[tuple[Process, str]]:
    name = f"explosive-{request.param}"
    process = fleet.stack.worker(*FLAGS, "--postprocess-on-error", request.param, name=name)
    fleet.stack.wait_for_model(fleet.frontend, name)
    yield process, name
    process.terminate()
    process.reap()


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
def test_a_parser_that_raises_costs_its_own_request_only(
    worker: tuple[Process, str], fleet: Fleet, stream: bool
) -> None:
    process, name = worker
    client = Client(fleet.frontend.url, name)
    before = metric(process.url, ERRORS)
    # The worker has no reasoning parser, so the markers of thinking are content.
    if name.endswith("degrade"):
        answer = client.ask(EXPLODES, stream=stream).answer
        assert answer.content == raw("tool_call")
        assert answer.finish_reason == "stop"
    else:
        with pytest.raises(openai.APIError):
            client.ask(EXPLODES, stream=stream)
    assert metric(process.url, ERRORS) == before + 1
    assert client.ask(HARMLESS, stream=stream).answer.content == raw("text_call")
    assert metric(process.url, ERRORS) == before + 1
    log = process.log.read_text()
    assert "parser 'explosive' failed on request chatcmpl-" in log
    assert "RuntimeError: boom" in log
