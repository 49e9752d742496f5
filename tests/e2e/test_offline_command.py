"""The command with a real vLLM: Ctrl-C for all of its processes, going on, shards."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.e2e.offline_batch import ALL
from tests.e2e.test_offline import ENVIRONMENT
from tests.offline.batch_files import batch_row, read_answers
from tests.support import TINY_MODEL, TRANSCRIPTS
from tools.offline import CPU_ARGUMENTS, PARSERS

# More rows than the engine holds at once, of the shortest answers.
SHORT = [TRANSCRIPTS[name] for name in ("cut_text", "plain_text", "stop_string")]
MANY = 1800
TIMEOUT_S = 400


def build_vllm_command(source: Path, output: Path, *flags: str) -> list[str]:
    arguments = [f"--engine-args={name}={value}" for name, value in CPU_ARGUMENTS.items()]
    return [
        *(sys.executable, "-m", "backedge.offline", "--model", str(TINY_MODEL)),
        *("--backend", "vllm", "--dtype", "float32", "--max-model-len", "2048", *arguments),
        *("--temperature", "0", *PARSERS),
        *("--input", str(source), "--output", str(output), *flags),
    ]


def start(
    source: Path, output: Path, *flags: str, processes: bool = False
) -> subprocess.Popen[bytes]:
    """Start the command as a terminal does, in a process group of its own."""
    environment = {
        **os.environ,
        **ENVIRONMENT,
        "TORCHDYNAMO_DISABLE": "1",
        "VLLM_ENABLE_V1_MULTIPROCESSING": str(int(processes)),
    }
    log = output.with_suffix(".log").open("ab")
    command = build_vllm_command(source, output, *flags)
    return subprocess.Popen(
        command, env=environment, stdout=log, stderr=log, start_new_session=True
    )


def write_batch(path: Path, rows: list[dict[str, object]]) -> Path:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def test_ctrl_c_lets_the_rows_finish_and_the_same_command_goes_on(tmp_path: Path) -> None:
    rows = [batch_row(number, SHORT[number % 3]) for number in range(MANY)]
    source, output = write_batch(tmp_path / "in.jsonl", rows), tmp_path / "out.jsonl"
    log = output.with_suffix(".log")
    process = start(source, output, processes=True)
    while process.poll() is None and not (output.exists() and output.stat().st_size):
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(TIMEOUT_S) == 130, log.read_text()[-4000:]
    assert "SIGINT: the " in log.read_text()
    first = read_answers(output)
    assert 0 < len(first) < MANY
    assert f"stopped; {output} has {len(first):,} rows" in log.read_text()
    assert start(source, output, processes=True).wait(TIMEOUT_S) == 0, log.read_text()[-4000:]
    answers = read_answers(output)
    assert answers[: len(first)] == first
    assert sorted(int(answer["custom_id"].removeprefix("row-")) for answer in answers) == list(
        range(MANY)
    )
    texts = {answer["response"]["body"]["choices"][0]["message"]["content"] for answer in answers}
    assert texts == {transcript["expect"]["content"] for transcript in SHORT}


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("shards")
    rows = [batch_row(number, transcript) for number, transcript in enumerate(ALL)]
    source = write_batch(folder / "in.jsonl", rows)
    outputs = [folder / f"out.{number}.jsonl" for number in (1, 2)]
    for number, output in enumerate(outputs, 1):
        status = start(source, output, "--shard", f"{number}/2").wait(TIMEOUT_S)
        assert status == 0, output.with_suffix(".log").read_text()[-4000:]
    return outputs


def test_shards_have_all_rows_once(shards: list[Path]) -> None:
    numbers = [
        [int(answer["custom_id"].removeprefix("row-")) for answer in read_answers(path)]
        for path in shards
    ]
    assert sorted(numbers[0]) == list(range(0, len(ALL), 2))
    assert sorted(numbers[1]) == list(range(1, len(ALL), 2))


def test_the_log_has_a_line_of_progress(shards: list[Path]) -> None:
    log = shards[0].with_suffix(".log").read_text()
    half = (len(ALL) + 1) // 2
    assert f"{half}/{half} rows (100%), " in log
    assert " rows/s, " in log
    assert " tokens/s, " in log
