"""`backedge doctor` as a command: targets, exit codes, JSON."""

from __future__ import annotations

import msgspec
import pytest
from backedge.cli.doctor import checkup
from backedge.cli.doctor.findings import Finding, Report
from backedge.cli.main import main
from click.testing import CliRunner, Result

from tests.cli.doctor.fleets import card, frontend_answers, serve, write_cards
from tests.support import TINY_MODEL

MODEL = str(TINY_MODEL)


@pytest.fixture(autouse=True)
def seams(monkeypatch) -> list[str]:
    """Engines are not imported; return whose seams were asked for."""
    asked: list[str] = []

    def check_engine(engine: str, *, lists: bool):
        asked.append(engine)
        yield Finding("ok", "seams", "fit")

    monkeypatch.setattr(checkup, "check_engine", check_engine)
    monkeypatch.setattr(checkup, "check_vllm_parsers", lambda *_: iter(()))
    return asked


def doctor(*words: str) -> Result:
    return CliRunner().invoke(main, ["doctor", *words])


def read(result: Result) -> dict[str, Finding]:
    report = msgspec.json.decode(result.stdout, type=Report)
    assert report.exit_code == result.exit_code
    return {finding.topic: finding for finding in report.findings}


def test_nothing_tells_what_is_installed() -> None:
    result = doctor("--json")
    assert set(read(result)) == {"installed", "machine"}


def test_a_model() -> None:
    result = doctor(MODEL)
    assert result.exit_code == 0
    assert "--tool-call-parser hermes --reasoning-parser qwen3" in result.stdout
    assert "\x1b[" not in result.stdout


def test_what_needs_a_change_comes_last_before_the_verdict() -> None:
    words = ("python", "-m", "dynamo.vllm", "--model", MODEL, "--vllm-processing")
    *_, verdict = lines = doctor("--", *words).stdout.splitlines()
    assert verdict == "0 errors, 2 warnings: this command passes its flags"
    kinds = [line.split()[0] for line in lines if line[:1].isalpha()]
    assert kinds == sorted(kinds, key=["ok", "note", "warning", "error"].index)


@pytest.mark.parametrize("words", ["python -m dynamo.vllm --model m", "vllm serve m"])
def test_a_command_needs_dashes_in_front(words) -> None:
    result = doctor(*words.split())
    assert result.exit_code == 2
    assert f"put -- in front of the command: backedge doctor -- {words}" in result.output


def test_a_model_and_an_engine(seams) -> None:
    assert "seams" in read(doctor(MODEL, "--engine", "sglang", "--json"))
    assert "seams" in read(doctor("--engine", "vllm", "--json"))
    assert seams == ["sglang", "vllm"]


@pytest.mark.parametrize(
    ("words", "exit_code"),
    [
        (("--vllm-processing", "--tool-call-parser", "hermes", "--reasoning-parser", "qwen3"), 0),
        (("--vllm-processing", "--tool-call-parser", "hermes"), 1),
        (("--vllm-processing", "--tool-call-parser", "mistral"), 2),
    ],
)
def test_a_command_line(words, exit_code, seams) -> None:
    result = doctor("--json", "--", "python", "-m", "dynamo.vllm", "--model", MODEL, *words)
    assert result.exit_code == exit_code
    assert "post-processing" in read(result)
    assert seams == ["vllm"]


def test_the_replay_worker_has_no_engine(seams) -> None:
    words = ("--tool-call-parser", "auto", "--reasoning-parser", "auto")
    assert doctor("--", "python", "-m", "backedge.worker.demo", *words).exit_code == 0
    assert seams == []


def test_a_fleet(tmp_path) -> None:
    place = write_cards(tmp_path, card("m"), card("m", None, 2))
    with serve(frontend_answers("m")) as url:
        found = read(doctor(url, "--discovery", place, "--worker", url, "--json"))
        assert found["m"].severity == "warning"
        assert found["worker"].severity == "ok"
        without = read(doctor(url, "--discovery", str(tmp_path / "none"), "--json"))
    assert without["discovery"].severity == "note"
    assert "DYN_FILE_KV" in without["discovery"].fix


@pytest.mark.parametrize(
    "words",
    [("/no/such/model",), ("--", "ls"), ("--", "python", "-m", "dynamo.vllm"), ("http://[",)],
)
def test_what_cannot_be_read_is_an_error_in_the_report(words) -> None:
    result = doctor("--json", *words)
    assert result.exit_code == 2
    assert "installed" in read(result)
    assert "Traceback" not in result.output
