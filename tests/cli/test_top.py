"""`backedge top`: a row for each process, with rates between two readings."""

from __future__ import annotations

import itertools

import pytest
from backedge.base.errors import SetupError
from backedge.cli import top
from backedge.cli.main import main
from backedge.cli.top import HEAD, Reading, describe, read
from click.testing import CliRunner

from tests.cli.doctor.fleets import serve

WORKER = """
backedge_requests_in_flight 3.0
backedge_engine_tokens_total {tokens}
backedge_chunk_wait_seconds_count{{kind="content"}} {chunks}
backedge_chunk_wait_seconds_sum{{kind="content"}} {waited}
backedge_stage_tokens_total{{stage="parse"}} {tokens}
backedge_stage_seconds_total{{stage="parse"}} {parsed}
backedge_tool_calls_total{{parser="hermes",outcome="complete"}} 7
backedge_tool_calls_total{{parser="hermes",outcome="open"}} 0
backedge_pool_processes{{state="ready"}} 2
"""
FIRST = WORKER.format(tokens=100, chunks=10, waited=1, parsed=0.0001)
SECOND = WORKER.format(tokens=300, chunks=30, waited=2, parsed=0.0005)
FRONTEND = 'dynamo_frontend_inflight_requests{model="a"} 1\n'


def read_text(text: str, at_s: float) -> Reading:
    with serve({"/metrics": (200, text)}) as url:
        return read(f"{url}/")._replace(at_s=at_s)


def test_a_worker_has_rates_and_totals() -> None:
    row = describe("http://w:9090", read_text(FIRST, 1), read_text(SECOND, 3))
    assert row == ("w:9090", "3", "100", "50", "parse 2.0", "7 complete", "2 ready")


def test_a_frontend_has_streams_alone() -> None:
    reading = read_text(FRONTEND, 1)
    assert describe("http://f:8000", reading, reading) == ("f:8000", "1", "0", "-", "-", "-", "-")


@pytest.mark.parametrize(("status", "text"), [(200, "<html>"), (200, "a x\n"), (500, "a 1\n")])
def test_an_answer_that_is_no_metrics_is_named(status: int, text: str) -> None:
    with serve({"/metrics": (status, text)}) as url, pytest.raises(SetupError, match=url):
        read(url)


def test_the_command_prints_a_table_for_each_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = itertools.chain([FIRST], itertools.repeat(SECOND))
    fetched = {"http://w:1/metrics": texts, "http://f:2/metrics": itertools.repeat(FRONTEND)}

    def fetch(url: str) -> bytes:
        if url not in fetched:
            raise SetupError(f"{url} does not answer")
        return next(fetched[url]).encode()

    monkeypatch.setattr(top, "fetch_good", fetch)
    words = ["top", "http://w:1", "http://f:2", "http://gone:3", "--every", "0.1", "--times", "2"]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert [line.split()[0] for line in lines] == 2 * [
        "process",
        "w:1",
        "f:2",
        "http://gone:3/metrics",
    ]
    assert lines[0].split()[:2] == [HEAD[0], HEAD[1]]
    assert "parse 2.0" in lines[1]
    assert "parse" not in lines[5], "nothing came since the first table"
