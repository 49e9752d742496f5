"""kill -9 at random moments, over and over: every row once, none lost, no line in halves."""

from __future__ import annotations

import random
import subprocess
import time
from pathlib import Path

from tests.offline.batch_files import build_command, read_answers, run_command, write_rows

ROWS, KILLS = 2000, 20
SEED = 7


def kill_later(command: list[str], output: Path, growth: int, delay: float) -> bool:
    """Start the command and kill it after so many bytes and seconds; whether it was running."""
    before = output.stat().st_size if output.exists() else 0
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        while process.poll() is None:
            if output.exists() and output.stat().st_size >= before + growth:
                break
            time.sleep(0.001)
        time.sleep(delay)
        process.kill()
    return process.returncode == -9


def test_every_row_is_there_once_after_kills(tmp_path: Path) -> None:
    draw = random.Random(SEED)
    source = write_rows(tmp_path / "in.jsonl", ROWS)
    whole, output = tmp_path / "whole.jsonl", tmp_path / "out.jsonl"
    assert run_command(source, whole).returncode == 0
    share = whole.stat().st_size / KILLS
    killed = 0
    for number in range(KILLS):
        # Some kills come before the first row, and the others somewhere in the rows.
        growth = 0 if number % 5 == 4 else int(draw.uniform(0, share))
        killed += kill_later(build_command(source, output), output, growth, draw.uniform(0, 0.01))
    assert killed == KILLS
    assert 0 < len(output.read_bytes().splitlines()) < ROWS
    assert run_command(source, output).returncode == 0
    answers = read_answers(output)
    assert sorted(answer["custom_id"] for answer in answers) == sorted(
        f"row-{number}" for number in range(ROWS)
    )
    assert sorted(output.read_bytes().splitlines()) == sorted(whole.read_bytes().splitlines())
