"""The command: whole runs, every refusal with its message, exit codes, signals, a full disk."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from backedge.offline import command as command_module
from backedge.offline.command import load_plugin
from backedge.offline.contracts import EngineDiedError
from backedge.testing.offline import ReplayBackend
from backedge.testing.transcripts import Recordings

from tests.offline.batch_files import (
    ALL,
    REPLAY,
    batch_row,
    build_command,
    read_answers,
    run_command,
    run_here,
    write_rows,
)
from tests.support import TINY_MODEL, TRANSCRIPTS, as_whole


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_rows(tmp_path / "in.jsonl", 30)


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return tmp_path / "out.jsonl"


def run(source: Path, output: Path, *flags: str, base: tuple[str, ...] = REPLAY) -> int:
    return run_here([*base, "--input", str(source), "--output", str(output), *flags])


def as_transcript(answer: dict[str, Any]) -> dict[str, Any]:
    """Return the first choice in the form in which transcripts expect it."""
    choice = answer["response"]["body"]["choices"][0]
    message = choice["message"]
    calls = [call["function"] for call in message.get("tool_calls", [])]
    return {
        "reasoning": message.get("reasoning_content"),
        "content": message["content"],
        "tool_calls": calls,
        "finish_reason": choice["finish_reason"],
    }


def test_every_row_gets_its_transcript(source: Path, output: Path) -> None:
    assert run(source, output) == 0
    answers = read_answers(output)
    assert [answer["custom_id"] for answer in answers] == [f"row-{number}" for number in range(30)]
    expected = [as_whole(ALL[number % len(ALL)]["expect"]) for number in range(30)]
    assert [as_transcript(answer) for answer in answers] == expected


def test_a_row_that_fails_is_written_before_the_next_is_generated(
    tmp_path: Path, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "in.jsonl"
    long = {"id": "long", "prompt": "word " * 5000}
    rows = [long, batch_row(1, ALL[1]), {**long, "id": "again"}, batch_row(3, ALL[3])]
    source.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    find, written = Recordings.find, []

    def count(recordings: Recordings, token_ids: list[int], *, in_json: bool) -> Any:
        written.append(len(read_answers(output)))
        return find(recordings, token_ids, in_json=in_json)

    monkeypatch.setattr(Recordings, "find", count)
    assert run(source, output) == 3
    assert written == [1, 3]
    assert len(read_answers(output)) == 4


def test_rows_of_all_forms_in_one_file(tmp_path: Path, output: Path) -> None:
    source = tmp_path / "in.jsonl"
    plain = {"id": 5, "label": "x", "messages": TRANSCRIPTS["reasoning_text"]["messages"]}
    rows = [plain, batch_row(1, ALL[1]), {"prompt": "No transcript."}]
    source.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    assert run(source, output) == 3
    first, second, third = read_answers(output)
    assert {**first, "response": None} == {**plain, "response": None}
    assert first["response"]["error"] is None
    assert first["response"]["completion_tokens"] > 0
    assert second["response"]["status_code"] == 200
    assert third["prompt"] == "No transcript."
    assert third["response"]["error"]["code"] == "no_recording"


def test_nothing_is_done_twice(
    source: Path, output: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(source, output) == 0
    before = output.read_bytes()
    assert run(source, output) == 0
    assert output.read_bytes() == before
    assert "30 of 30 rows already have a result in" in capsys.readouterr().err


def test_answers_are_put_into_the_order_of_the_input(source: Path, output: Path) -> None:
    assert run(source, output) == 0
    lines = output.read_bytes().splitlines(keepends=True)
    output.write_bytes(b"".join(reversed(lines[:20])))
    assert run(source, output, "--in-order") == 0
    assert output.read_bytes().splitlines(keepends=True) == lines
    assert sorted(path.name for path in output.parent.iterdir()) == [
        "in.jsonl",
        "out.jsonl",
        "out.jsonl.run",
    ]


def test_a_model_that_changed_is_refused(
    source: Path, output: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = tmp_path / "model"
    shutil.copytree(TINY_MODEL, model)
    assert run(source, output, "--model", str(model)) == 0
    assert run(source, output, "--model", str(model)) == 0
    os.utime(model / "model.safetensors", (1, 1))
    capsys.readouterr()
    assert run(source, output, "--model", str(model)) == 2
    assert "was started with other settings (model files " in capsys.readouterr().err


def test_rows_that_are_added_are_done(source: Path, output: Path) -> None:
    assert run(source, output) == 0
    write_rows(source, 35)
    assert run(source, output) == 0
    assert [answer["id"] for answer in read_answers(output)] == [
        f"backedge-{line}" for line in range(1, 36)
    ]


def test_shards_are_the_whole(source: Path, output: Path, tmp_path: Path) -> None:
    assert run(source, output) == 0
    parts = []
    for number in (1, 2, 3):
        part = tmp_path / f"out.{number}.jsonl"
        assert run(source, part, "--shard", f"{number}/3") == 0
        parts += part.read_bytes().splitlines()
    assert len(parts) == 30
    assert sorted(parts) == sorted(output.read_bytes().splitlines())


def test_a_shard_without_rows_is_done(tmp_path: Path, output: Path) -> None:
    source = write_rows(tmp_path / "in.jsonl", 1)
    assert run(source, output, "--shard", "2/2") == 0
    assert output.read_bytes() == b""


LONG = {"messages": [{"role": "user", "content": "long " * 5000}]}
UNKNOWN = {"messages": [{"role": "user", "content": "Hi"}]}
# Each of these once ended a batch.
FIELDS: list[tuple[dict[str, Any], str]] = [
    ({"chat_template_kwargs": {"tools": [1]}}, "`chat_template_kwargs.tools` is not supported"),
    ({"chat_template_kwargs": {"messages": [1]}}, "`chat_template_kwargs.messages` is not"),
    ({"messages": [{"role": "user", "content": [5]}]}, "`messages[0].content[0]` must be"),
    (
        {"messages": [{"role": "user", "content": [{"type": "text", "text": 5}]}]},
        "`messages[0].content[0].text` must be a string, not 5.",
    ),
    ({"stop_token_ids": [2**63]}, "`stop_token_ids` must be a list of token ids"),
    ({"guided_choice": []}, "`guided_choice` must be a list of one text or more"),
]
FAILURES = [
    (batch_row(0, UNKNOWN), "duplicate_id", "belongs to an earlier row"),
    (batch_row(-1, UNKNOWN), "no_recording", "none of which"),
    (batch_row(-1, UNKNOWN) | {"url": "/v1/embeddings"}, "request", "`url` must be /v1/chat"),
    (batch_row(-1, {"messages": "Hi"}), "request", "messages"),
    (batch_row(-1, {"messages": [1]}), "request", "messages"),
    (batch_row(-1, {}), "request", "messages"),
    (batch_row(-1, {**UNKNOWN, "tools": [5]}), "request", "`body.tools` must be a list of objects"),
    (batch_row(-1, {**UNKNOWN, "tool_choice": 5}), "request", "`body.tool_choice` must be"),
    (batch_row(-1, {"messages": [{"role": 5, "content": {}}]}), "request", "messages"),
    (batch_row(-1, LONG), "prompt_too_long", "tokens; at most"),
    *(
        (batch_row(-1, {}) | {"body": {**UNKNOWN, **fields}}, "request", part)
        for fields, part in FIELDS
    ),
]


@pytest.mark.parametrize(
    ("row", "code", "message"),
    FAILURES,
    ids=[f"{row[1]}-{row[2]}-{number}" for number, row in enumerate(FAILURES)],
)
def test_a_row_that_fails_has_its_reason_and_the_others_go_on(
    source: Path,
    output: Path,
    row: dict[str, Any],
    code: str,
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with source.open("a") as file:
        file.write(f"{json.dumps(row)}\n")
    assert run(source, output) == 3
    [failed] = [answer for answer in read_answers(output) if answer["error"]]
    assert failed["custom_id"] == row["custom_id"]
    assert failed["error"]["code"] == code
    assert message in failed["error"]["message"]
    assert failed["response"]["body"] == {"error": failed["error"]}
    assert len(read_answers(output)) == 31
    assert "1 of 31 rows failed; see their `error`." in capsys.readouterr().err
    assert run(source, output) == 3
    assert len(read_answers(output)) == 31


def spoil_input(source: Path, _: Path) -> None:
    with source.open("a") as file:
        file.write('{"prompt": "a}\n')


def begin_with_seed(source: Path, output: Path) -> None:
    assert run(source, output, "--seed", "1") == 0


def begin_with_another_input(source: Path, output: Path) -> None:
    assert run(source, output) == 0
    source.write_text(source.read_text().replace("row-0", "row-x"))


def write_notes(_: Path, output: Path) -> None:
    output.write_text("notes")


def nothing(source: Path, output: Path) -> None:
    """Leave the files as they are."""


def add_image(source: Path, _: Path) -> None:
    with source.open("a") as file:
        file.write('{"prompt": "What?", "image": "a.png"}\n')


REFUSALS: list[tuple[str, Callable[[Path, Path], None], tuple[str, ...], str]] = [
    ("unknown flag", nothing, ("--temprature", "1"), "'--temperature'"),
    ("bad value", nothing, ("--temperature", "-1"), "--temperature: `temperature` must be"),
    ("parser", nothing, ("--tool-call-parser", "hermez"), "'hermez' is not known"),
    ("engine", nothing, ("--engine-args", "token_per_step=1"), "did you mean 'tokens_per_step'?"),
    ("plugin", nothing, ("--plugin", "jsonstop"), "did you mean 'json_stop'?"),
    ("plugin and parser", nothing, ("--plugin", "json_stop"), "which parsed messages do not allow"),
    ("plugin's module", nothing, ("--plugin", "none.such:Thing"), "No module named 'none'"),
    ("plugin's class", nothing, ("--plugin", "json:JSONDecoder"), "is not a plugin"),
    ("a folder", nothing, ("--model", "/none"), "the model '/none' is not a folder"),
    ("image", add_image, (), "a request with an image needs the capability 'vlm'"),
    ("input", spoil_input, (), "line 31, column 12: not JSON: Unterminated string"),
    ("no input", lambda source, _: source.unlink(), (), "cannot be read: No such file"),
    ("settings", begin_with_seed, (), "started with other settings (--seed 1, now null)"),
    ("another input", begin_with_another_input, (), "has changed since"),
    ("foreign output", write_notes, (), "is not empty, but out.jsonl.run"),
]


@pytest.mark.parametrize(
    ("make", "flags", "message"), [row[1:] for row in REFUSALS], ids=[row[0] for row in REFUSALS]
)
def test_refused_before_weights_load(
    source: Path,
    output: Path,
    make: Callable[[Path, Path], None],
    flags: tuple[str, ...],
    message: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make(source, output)
    before = output.read_bytes() if output.exists() else None
    monkeypatch.setattr(ReplayBackend, "load", lambda _: pytest.fail("weights were loaded"))
    capsys.readouterr()
    assert run(source, output, *flags) == 2
    assert message in capsys.readouterr().err
    assert (output.read_bytes() if output.exists() else None) == before


def test_the_input_is_no_output(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = source.read_bytes()
    assert run(source, source) == 2
    assert f"--output {source} is the input; name another file." in capsys.readouterr().err
    assert source.read_bytes() == before


def test_an_output_that_another_process_writes_is_refused(source: Path, output: Path) -> None:
    program = (
        "import sys\nfrom pathlib import Path\n"
        "from backedge.offline.batch_output import BatchOutput\n"
        "output = BatchOutput(Path(sys.argv[1]))\nprint('ready', flush=True)\ninput()\n"
    )
    output.touch()
    command = [sys.executable, "-c", program, str(output)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as writer:  # type: ignore[call-overload]  # pipes are integers
        writer.stdout.readline()
        assert run(source, output) == 2
        writer.communicate("\n")
    assert run(source, output) == 0


def fail_to_load(_: ReplayBackend) -> None:
    raise RuntimeError("no memory for the weights")


def fail_after(count: int, error: Exception, real: Any) -> Any:
    def generate(self: ReplayBackend, rows: Any) -> Any:
        for number, row in enumerate(real(self, rows)):
            if number == count:
                raise error
            yield row

    return generate


def test_an_engine_that_cannot_start(
    source: Path, output: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ReplayBackend, "load", fail_to_load)
    assert run(source, output) == 2
    shown = capsys.readouterr().err
    assert "RuntimeError: no memory for the weights" in shown
    assert "nothing was generated." in shown


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (RuntimeError("no idea"), "RuntimeError: no idea"),
        (EngineDiedError("vLLM"), "the engine died: vLLM's own messages are in the log above.\n"),
    ],
)
@pytest.mark.parametrize("rows", [0, 5])
def test_an_engine_that_dies_is_gone_on_with(
    error: Exception,
    said: str,
    rows: int,
    source: Path,
    output: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as patch:
        failing = fail_after(rows, error, ReplayBackend.generate)
        patch.setattr(ReplayBackend, "generate", failing)
        code = run(source, output)
    shown = capsys.readouterr().err
    assert said in shown
    if rows or isinstance(error, EngineDiedError):
        assert code == 1
        assert f"aborted; {output} has {rows} rows, and the same command resumes" in shown
    else:
        assert code == 2
    assert run(source, output) == 0
    assert len(read_answers(output)) == 30


def wait_for(condition: Callable[[], bool]) -> None:
    for _ in range(3000):
        if condition():
            return
        time.sleep(0.01)
    pytest.fail("waited for 30 s")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_cleanly_and_the_same_command_goes_on(
    tmp_path: Path, output: Path, number: signal.Signals
) -> None:
    source = write_rows(tmp_path / "in.jsonl", 2000)
    command = build_command(source, output)
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        wait_for(lambda: output.exists() and output.stat().st_size > 10_000)
        process.send_signal(number)
        _, shown = process.communicate()
    assert process.returncode == 128 + number
    answers = read_answers(output)
    assert 10 < len(answers) < 2000
    assert f"{number.name}: finishing the " in shown
    ending = f"stopped; {output} has {len(answers):,} rows, and the same command resumes from there"
    assert ending in shown
    finished = run_command(source, output)
    assert finished.returncode == 0
    assert f"{len(answers):,} of 2,000 rows already have a result" in finished.stderr
    assert [answer["id"] for answer in read_answers(output)] == [
        f"backedge-{line}" for line in range(1, 2001)
    ]


def test_a_signal_before_the_start(
    source: Path, output: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def scan(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        wait_for(lambda: False)

    monkeypatch.setattr(command_module, "scan_input", scan)
    assert run(source, output) == 130
    assert "stopped before generation began." in capsys.readouterr().err


def test_a_disk_that_is_full(source: Path, output: Path) -> None:
    command = build_command(source, output)
    limited = ["sh", "-c", 'ulimit -f 8; exec "$@"', "sh", *command]
    process = subprocess.run(limited, capture_output=True, text=True, check=False)
    assert process.returncode == 1
    assert f"{output} could not be written (File too large); its lines are whole." in (
        process.stderr
    )
    answers = read_answers(output)
    assert 0 < len(answers) < 30
    assert f"aborted; {output} has {len(answers)} rows" in process.stderr
    assert run_command(source, output).returncode == 0
    assert len(read_answers(output)) == 30


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("json_stob", "did you mean 'json_stop'?"),
        ("os:getcwdb.x", "AttributeError"),
        ("tests.offline.batch_files:build_command", "TypeError"),
    ],
)
def test_a_plugin_that_cannot_be_made(
    name: str, message: str, source: Path, output: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(source, output, "--plugin", name) == 2
    shown = capsys.readouterr().err
    assert f"--plugin {name!r}" in shown
    assert message in shown


def test_a_plugin_of_one_s_own_is_found() -> None:
    assert load_plugin("tests.offline.batch_files:Shout").name == "shout"


def test_help_ends_well(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_here(["--help"]) == 0
    assert "Exit codes: 0 all rows" in capsys.readouterr().out


def test_a_terminal_that_does_not_know_its_size_shows_the_bar(source: Path, output: Path) -> None:
    """As a container's; and so is a new pseudo-terminal."""
    ours, terminal = os.openpty()
    process = subprocess.Popen(build_command(source, output), stdout=terminal, stderr=terminal)
    os.close(terminal)
    shown = b""
    # Reading fails when the process has closed its end.
    with contextlib.suppress(OSError):
        while part := os.read(ours, 65536):
            shown += part
    os.close(ours)
    assert process.wait() == 0
    assert b"rows: 100%|" in shown
    assert b"| 30/30 [" in shown
