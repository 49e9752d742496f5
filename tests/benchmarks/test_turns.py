"""The loops of agents that are measured: all prompts begin with what came before, or it is said."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import msgspec
import pytest

from benchmarks import turns
from benchmarks.turns import CALLS, NotMeasuredError, Row, measure, measure_all
from benchmarks.turns_cost import LONG, MODES, SHORT, Frontend
from benchmarks.turns_stack import Step, summarize
from benchmarks.turns_store import ANSWERS
from tests.conformance.cases import OUTSIDE
from tests.support import TINY_MODEL
from tools.machine import find

# Families that write calls, and end turns, in different ways.
TEMPLATES = (
    "MiniMax-M2",
    "GLM-4.7-Flash",
    "openai-gpt-oss-120b",
    "google-gemma-4-31B-it",
    "Kimi-K3",
)


# How many answers a look-up finds in each state of the store.
FOUND = {("answers", ANSWERS), ("holds garbage", 0), ("was stopped", 0), ("was killed", 0)}


def test_a_loop_stays_one_sequence_with_exact_alone() -> None:
    row = measure(TINY_MODEL / "chat_template.jinja")
    assert (row.off, row.sent_back, row.reasoning, row.exact) == (0, CALLS, CALLS, CALLS)


def test_a_template_without_thoughts_is_not_measured(tmp_path: Path) -> None:
    (tmp_path / "plain.jinja").write_text("{{ messages[0].content }}")
    rows, [other] = measure_all(tmp_path)
    assert (rows, other.template) == ([Row("whole loops of 0", 0, 0, 0, 0)], "plain")
    assert "auto finds no parser" in other.reason
    with pytest.raises(NotMeasuredError):
        measure(tmp_path / "plain.jinja")


@pytest.mark.skipif(not OUTSIDE.is_dir(), reason="there are no templates beside the checkout")
@pytest.mark.parametrize("name", TEMPLATES)
def test_public_templates_stay_one_sequence(name: str) -> None:
    row = measure(OUTSIDE / "llamacpp_templates" / f"{name}.jinja")
    assert (row.off, row.exact) == (0, CALLS)


def test_the_report(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "a.jinja").write_text((TINY_MODEL / "chat_template.jinja").read_text("utf-8"))
    turns.main([str(tmp_path)])
    title, head, whole, one = capsys.readouterr().out.partition("\n\n")[0].splitlines()
    assert (title, head.split()[0]) == ("templates", "template")
    assert whole.split() == ["whole", "loops", "of", "1", "0", "1", "1", "1"]
    assert one.split() == ["a", "0", "5", "5", "5"]


def test_the_cost_and_the_look_ups(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # A busy machine may take longer than the limit.
    monkeypatch.setattr("backedge.frontend.turns.shared_turns.TIMEOUT_S", 1.0)
    parts = ["cost", *(["store"] if find("redis-server") else [])]
    turns.main(["--parts", *parts, "--rounds", "2", "--json"])
    found = msgspec.json.decode(capsys.readouterr().out)
    assert [row["mode"] for row in found["cost"]] == ["reasoning", "exact"]
    assert all(row["rounds"] == 2 and row["whole"] > 0 for row in found["cost"])
    found_in = {(row["state"], row["found"]) for row in found.get("store", ())}
    assert found_in == (FOUND if find("redis-server") else set())


def count_calls(frontend: Frontend, tokens: int) -> int:
    """Return how many functions a request with so many tokens calls, those in C included."""
    frontend.set_answer(tokens)
    frontend.measure(1)  # makes the worker's chunks
    calls: list[str] = []
    sys.setprofile(lambda _frame, event, _argument: calls.append(event))
    try:
        frontend.measure(1)
    finally:
        sys.setprofile(None)
    return calls.count("call") + calls.count("c_call")


def test_a_token_costs_two_calls_more_where_turns_are_kept() -> None:
    with asyncio.Runner() as runner:
        calls = {
            mode: count_calls(frontend, LONG) - count_calls(frontend, SHORT)
            for mode in MODES
            for frontend in [Frontend(mode, runner)]
        }
    tokens = LONG - SHORT
    assert calls["reasoning"] - calls["off"] <= 2 * tokens + 20
    assert calls["exact"] - calls["off"] <= 2 * tokens + 20


def test_the_shares_of_a_loop() -> None:
    # Of the first two prompts and answers, 1 and 3 blocks are whole.
    loop = [Step(64, 0, 0, 0), Step(97, 32, 1, 0), Step(140, 64, 1, 1)]
    row = summarize("off", [loop])
    assert (row.prompts, row.stayed) == (2, 1)
    assert [row.cached, row.lowest, row.seen] == pytest.approx([5 / 6, 2 / 3, 0.5])
