"""The command with real engines: Ctrl-C for all of vLLM's processes, going on, a shard; SGLang."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.e2e.offline_batch import ARGUMENTS, ENVIRONMENT
from tests.offline.batch_files import batch_row, read_answers
from tests.support import TINY_MODEL, TRANSCRIPTS
from tools.offline import CPU_ARGUMENTS, PARSERS

# The shortest answer, in more rows than the engine holds at once and ends before the signal comes.
SHORT = TRANSCRIPTS["cut_text"]
MANY = 1500
# With SGLang: a stop string, a limit, calls, one of them forced, a schema. `test_offline` has all.
NAMES = ("stop_string", "cut_text", "tool_call", "named_choice", "json_schema_reasoning")
SEEDS = range(8)
# The model knows no answer to it.
DRAWN = {
    "messages": [{"role": "user", "content": "Say 12"}],
    "max_tokens": 24,
    "ignore_eos": True,
    "temperature": 1.5,
}
TIMEOUT_S = 400


def build_engine_command(
    backend: str, arguments: Mapping[str, Any], source: Path, output: Path, *flags: str
) -> list[str]:
    given = [f"--engine-args={name}={json.dumps(value)}" for name, value in arguments.items()]
    return [
        *(sys.executable, "-m", "backedge.offline", "--model", str(TINY_MODEL)),
        *("--backend", backend, "--dtype", "float32", "--max-model-len", "2048", *given),
        *("--temperature", "0", *PARSERS),
        *("--input", str(source), "--output", str(output), *flags),
    ]


def start(command: list[str], log: Path) -> subprocess.Popen[bytes]:
    """Start a command as a terminal does, in a process group of its own."""
    environment = {**os.environ, **ENVIRONMENT, "TORCHDYNAMO_DISABLE": "1"}
    with log.open("ab") as stream:
        return subprocess.Popen(
            command, env=environment, stdout=stream, stderr=stream, start_new_session=True
        )


def write_batch(path: Path, rows: list[dict[str, object]]) -> Path:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def read_number(answer: dict[str, Any]) -> int:
    return int(answer["custom_id"].removeprefix("row-"))


def test_ctrl_c_lets_the_rows_finish_and_the_same_command_goes_on(tmp_path: Path) -> None:
    rows = [batch_row(number, SHORT) for number in range(2 * MANY)]
    source, output = write_batch(tmp_path / "in.jsonl", rows), tmp_path / "out.jsonl"
    log = tmp_path / "log"
    arguments = {name: json.loads(value) for name, value in CPU_ARGUMENTS.items()}
    command = build_engine_command("vllm", arguments, source, output, "--shard", "2/2")
    process = start(command, log)
    while process.poll() is None and not (output.exists() and output.stat().st_size):
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(TIMEOUT_S) == 130, log.read_text()[-4000:]
    assert "SIGINT: finishing the " in log.read_text()
    first = read_answers(output)
    assert 0 < len(first) < MANY
    assert f"stopped; {output} has {len(first):,} rows" in log.read_text()
    assert start(command, log).wait(TIMEOUT_S) == 0, log.read_text()[-4000:]
    answers = read_answers(output)
    assert answers[: len(first)] == first
    assert sorted(map(read_number, answers)) == list(range(1, 2 * MANY, 2))
    texts = {answer["response"]["body"]["choices"][0]["message"]["content"] for answer in answers}
    assert texts == {SHORT["expect"]["content"]}
    said = log.read_text().splitlines()
    [last] = [line for line in said if f"{MANY:,}/{MANY:,} rows (100%), " in line]
    assert " rows/s, " in last
    assert " tokens/s, " in last


def find_child(parent: int, name: bytes) -> int:
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    [found] = [int(pid) for pid in children if name in Path(f"/proc/{pid}/cmdline").read_bytes()]
    return found


def test_rows_of_each_kind_with_sglang(tmp_path: Path) -> None:
    """The scheduler dies in the first run; SGLang would kill our process as well.

    Rows with one seed get one answer, wherever they are in the batch and in whichever run.
    """
    rows = [batch_row(number, TRANSCRIPTS[name]) for number, name in enumerate(NAMES)]
    long = batch_row(len(NAMES), SHORT)
    long["body"] |= {"max_tokens": 500, "ignore_eos": True}
    for number, seed in enumerate((*SEEDS, *reversed(SEEDS)), len(NAMES) + 1):
        rows.append(batch_row(number, SHORT))
        rows[-1]["body"] |= {**DRAWN, "seed": seed}
    source, output = write_batch(tmp_path / "in.jsonl", [*rows, long]), tmp_path / "out.jsonl"
    log = tmp_path / "log"
    arguments = {**ARGUMENTS["sglang"], "enable_deterministic_inference": True}
    command = build_engine_command("sglang", arguments, source, output)
    process = start(command, log)
    while process.poll() is None and not (output.exists() and output.stat().st_size):
        time.sleep(0.05)
    os.kill(find_child(process.pid, b"scheduler"), signal.SIGKILL)
    assert process.wait(10) == 1, log.read_text()[-4000:]
    assert "the engine died: SGLang's own messages are in the log above." in log.read_text()
    assert start(command, log).wait(TIMEOUT_S) == 0, log.read_text()[-4000:]
    answers = sorted(read_answers(output), key=read_number)
    assert [*map(read_number, answers)] == [*range(len(rows) + 1)]
    answers, whole, seeded = answers[: len(NAMES)], answers[len(NAMES)], answers[len(NAMES) + 1 :]
    assert whole["response"]["body"]["usage"]["completion_tokens"] == 500
    drawn = [each["response"]["body"]["choices"][0]["message"]["content"] for each in seeded]
    assert drawn == drawn[::-1]
    assert len(set(drawn)) > len(SEEDS) // 2
    for name, answer in zip(NAMES, answers, strict=True):
        [choice] = answer["response"]["body"]["choices"]
        expected = TRANSCRIPTS[name]["expect"]
        assert choice["finish_reason"] == expected["finish_reason"]
        assert choice["message"]["content"] == expected["content"]
        calls = [call["function"] for call in choice["message"].get("tool_calls", [])]
        assert calls == expected["tool_calls"]
