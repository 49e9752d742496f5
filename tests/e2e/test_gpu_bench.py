"""The benchmark on a GPU, on a CPU with a tiny model: right answers, and a figure for each case."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from benchmarks.gpu import cut_answer
from benchmarks.systems import BACKEDGE_HF, RUST
from tools.stack import ROOT

TINY = "--device cpu --layers 2 --hidden 64 --vocabulary 1000 --streams 2 4 --rounds 1".split()


@pytest.mark.parametrize("kind", ["content", "tools"])
def test_long_answers_are_cut_and_short_ones_whole(kind: str) -> None:
    assert cut_answer(kind, 256) == 256
    assert cut_answer(kind, 700) == 0


def test_both_systems_answer_and_are_measured() -> None:
    command = (sys.executable, "-m", "benchmarks.gpu", "--json", "--tokens", "700", *TINY)
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    tables = json.loads(done.stdout)
    assert tables["problems"] == []
    [machine] = tables["machine"]
    assert machine["rounds"] == 1
    assert machine["parameters"] > 64_000
    rows = {
        (row["case"]["system"], row["case"]["kind"], row["case"]["streams"]): row["median"]
        for row in tables["medians of rounds"]
    }
    assert set(rows) == {
        (system, kind, streams)
        for system in (RUST, BACKEDGE_HF)
        for kind in ("content", "tools")
        for streams in (2, 4)
    }
    for sample in rows.values():
        assert sample["tokens_per_s"] > 0
        assert sample["worker_us"] > 0
    # Ours sends fewer chunks than tokens.
    assert rows[BACKEDGE_HF, "content", 4]["chunks"] < rows[RUST, "content", 4]["chunks"]
