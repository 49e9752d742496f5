"""`backedge replay`: equal or the first difference, and an exit code that says which."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from backedge.cli.main import main
from backedge.recording.parser_case import read_case
from click.testing import CliRunner, Result

from tests.cli.recorded import record_text, record_transcript
from tests.cli.replay.recordings import call, redact, tamper, write
from tests.recording.test_rerun import HOW
from tests.support import TRANSCRIPTS, params


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["replay", *arguments])


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("redacted", [False, True], ids=["content", "redacted"])
def test_equal_at_any_cuts(tmp_path: Path, how: str, redacted: bool) -> None:
    recording = redact(call()) if redacted else call()
    result = run(write(tmp_path / "file", recording), "--chunks", how)
    assert (result.exit_code, result.output.count("equal")) == (0, 1)
    assert "linear qwen3+hermes" in result.output


@pytest.mark.parametrize("name", TRANSCRIPTS)
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "unary"])
@pytest.mark.parametrize("redacted", [False, True], ids=["content", "redacted"])
def test_every_transcript_is_equal(tmp_path: Path, name: str, stream: bool, redacted: bool) -> None:
    recording = record_transcript(name, 1000, stream=stream)
    result = run(str(write(tmp_path / "file", redact(recording) if redacted else recording)))
    assert (result.exit_code, result.output.count("equal")) == (0, 1), result.output


@pytest.mark.parametrize("stop", ["naïve", "¿qué?", "…", "дом", "\N{SNOWMAN}\N{SNOWMAN}"])
def test_a_stop_string_is_kept_byte_by_byte(tmp_path: Path, stop: str) -> None:
    recording = record_text(f"</think>\n\nhello x{stop}y there", 1000, stop=[stop])
    result = run(str(write(tmp_path / "file", redact(recording))))
    assert (result.exit_code, result.output.count("equal")) == (0, 1), result.output


def test_one_bad_line_costs_one_request(tmp_path: Path) -> None:
    for number, place in enumerate(("2-a", "1-b")):
        content = write(tmp_path / "file", call(response_id=f"r{number}"))
        (tmp_path / f"backedge-worker-{place}.jsonl").write_text(
            "{}\n" + Path(content).read_text() + "no JSON\n"
        )
    (tmp_path / "file").unlink()
    result = run(str(tmp_path))
    assert result.exit_code == 2
    assert [line.split(":")[0] for line in result.stdout.splitlines()] == ["r1", "r0"]
    assert [line.count("left out in this file: 2") for line in result.stderr.splitlines()] == [1, 1]
    assert run(str(tmp_path), "--request", "r0").stdout.startswith("r0: equal")
    assert run(str(tmp_path), "--request", "2").stdout.startswith("r0: equal")


def test_the_first_difference_is_shown(tmp_path: Path) -> None:
    path = write(tmp_path / "file", tamper(call()))
    result = run(path)
    assert result.exit_code == 1
    assert 'reasoning: "?I should look' in result.output
    assert 'reasoning: "\\nI should look' in result.output
    (found,) = [json.loads(line) for line in run(path, "--json").output.splitlines()]
    assert not found["equal"]
    assert found["differences"][0]["left"]["text"].startswith("?I should")
    assert found["differences"][0]["right"]["delta"]["delta"]["reasoning_content"]


def test_other_parsers(tmp_path: Path) -> None:
    path = write(tmp_path / "file", call())
    without = run(path, "--tool-call-parser", "", "--reasoning-parser", "")
    assert without.exit_code == 1
    assert "none none" in without.output
    assert run(path, "--against", "linear", "--parsers", "linear").exit_code == 0
    against = run(path, "--against", "linear", "--tool-call-parser", "")
    assert (against.exit_code, "against linear qwen3+hermes" in against.output) == (1, True)


def test_a_redacted_recording_shows_a_lost_call(tmp_path: Path) -> None:
    result = run(write(tmp_path / "file", redact(call())), "--tool-call-parser", "")
    assert result.exit_code == 1
    assert 'call of call 0: "N1"' in result.output, "and not how it was called"


def test_a_client_that_left_got_a_beginning(tmp_path: Path) -> None:
    whole = call()
    cut = msgspec.structs.replace(whole, sent=[], outcome="cancelled")
    assert run(write(tmp_path / "file", cut)).exit_code == 0
    lost = msgspec.structs.replace(whole, sent=[])
    assert run(write(tmp_path / "file", lost)).exit_code == 1


def test_all_requests_of_a_file(tmp_path: Path) -> None:
    other = msgspec.structs.replace(tamper(call()), params=params(response_id="chatcmpl-2"))
    path = write(tmp_path / "file", call(), other, call())
    result = run(path)
    assert result.exit_code == 1
    assert [line.split()[1] for line in result.output.splitlines() if line[0] != " "] == [
        *("equal", "different", "equal")
    ]
    assert run(path, "--request", "3").exit_code == 0
    assert run(path, "--request", "chatcmpl-2").exit_code == 1


ERRORS = {
    "no file": (["none"], "none"),
    "no such request": (["FILE", "--request", "7"], "'7'"),
    "an unknown parser": (
        ["FILE", "--tool-call-parser", "hermos", "--parsers", "linear"],
        "hermos",
    ),
    "no tokenizer": (["FILE", "--model", "FOLDER"], "--model"),
    "cuts that are none": (["FILE", "--chunks", "0"], "'0'"),
    "nothing to minimize": (["FILE", "--minimize", "out"], "nothing to minimize"),
}


@pytest.mark.parametrize(("arguments", "says"), ERRORS.values(), ids=ERRORS)
def test_errors_are_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    path = write(tmp_path / "file", call())
    places = {"FILE": path, "FOLDER": str(tmp_path)}
    result = run(*(places.get(argument, argument) for argument in arguments))
    assert result.exit_code == 2
    assert says in result.output
    assert "Traceback" not in result.output


def test_the_shortest_stream_becomes_a_case(tmp_path: Path) -> None:
    path, case_path = write(tmp_path / "file", call()), tmp_path / "case.json"
    result = run(path, "--tool-call-parser", "", "--minimize", str(case_path))
    assert result.exit_code == 0
    case = read_case(case_path)
    assert 0 < len(case.tokens) < 20
    assert f"{len(case.tokens)} of" in result.output
    assert case.instead is not None
    assert case.instead.tool_calls
    assert case.expect.tool_calls == []
    assert run(str(case_path)).exit_code == 0


def test_a_case_that_fails(tmp_path: Path) -> None:
    path = tmp_path / "case.json"
    run(write(tmp_path / "file", call()), "--tool-call-parser", "", "--minimize", str(path))
    path.write_text(path.read_text().replace('"tool_call": null', '"tool_call": "hermes"'))
    result = run(str(path))
    assert result.exit_code == 1
    assert "expected:" in result.output
    assert not json.loads(run(str(path), "--json").output)["equal"]


def test_a_model_writes_no_escapes_to_the_terminal(tmp_path: Path) -> None:
    hostile = tamper(call(), "\x1b[31m\u202e")
    output = run(write(tmp_path / "file", hostile)).output
    assert output.isascii()
    assert "\x1b" not in output
