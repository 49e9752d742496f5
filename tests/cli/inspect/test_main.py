"""`backedge inspect` as it is called."""

from __future__ import annotations

import errno
import json
import socket
import stat
from pathlib import Path
from typing import NoReturn

import msgspec
import pytest
from backedge.base.errors import SetupError
from backedge.cli import load_model
from backedge.cli.inspect import main as main_module
from backedge.cli.inspect.main import read_beside
from backedge.cli.load_model import ParserChoice
from backedge.cli.main import main
from backedge.parsers.base import ParserNames
from click.testing import CliRunner, Result

from tests.cli.recorded import record_text, record_transcript, write


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["inspect", *map(str, arguments)])


@pytest.fixture(name="file")
def one(tmp_path: Path) -> Path:
    return write(tmp_path / "one.jsonl", record_transcript("reasoning_call"))


@pytest.fixture(name="several")
def two(tmp_path: Path) -> Path:
    recordings = [record_transcript(name) for name in ("parallel_calls", "reasoning_call")]
    return write(tmp_path / "two.jsonl", *recordings)


def test_writes_the_page_and_prints_where(file: Path) -> None:
    result = run(file)
    path = file.with_suffix(".html")
    assert (result.exit_code, result.output) == (0, f"{path}\n")
    assert path.read_text().startswith("<!doctype html>")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_follows_no_link_beside_a_recording(file: Path, tmp_path: Path) -> None:
    other, path = tmp_path / "other", file.with_suffix(".html")
    other.write_text("mine")
    path.symlink_to(other)
    result = run(file)
    assert result.exit_code
    assert f"{path} is a symbolic link" in result.output
    assert other.read_text() == "mine"
    assert run(file, "--output", path).output == f"{path}\n"


def test_writes_the_page_where_it_is_asked_to(file: Path, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.touch(0o644)
    assert run(file, "--output", path).output == f"{path}\n"
    assert path.stat().st_size
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_lists_several_requests(several: Path) -> None:
    result = run(several)
    assert result.exit_code == 0
    assert [line.split()[1] for line in result.stdout.splitlines()[1:3]] == [
        "chatcmpl-parallel_calls",
        "chatcmpl-reasoning_call",
    ]
    rows = json.loads(run(several, "--json").stdout)
    assert [row["tool_calls"] for row in rows] == [2, 1]


def test_a_folder_stands_for_its_files(file: Path, several: Path) -> None:
    rows = json.loads(run(file.parent, "--json").stdout)
    assert [row["number"] for row in rows] == [1, 2, 3]
    assert len(json.loads(run(file, several, "--json").stdout)) == 3
    shown = run(file, several, "--request", "chatcmpl-parallel_calls", "--text").output
    assert "request chatcmpl-parallel_calls" in shown


def test_a_folder_without_recordings_is_refused(tmp_path: Path) -> None:
    assert run(tmp_path).stderr == f"backedge inspect: {tmp_path} has no recordings (*.jsonl).\n"


def test_shows_the_chosen_one(several: Path) -> None:
    for request in ("2", "chatcmpl-reasoning_call"):
        result = run(several, "--request", request, "--text")
        assert "request chatcmpl-reasoning_call" in result.output
    assert run(several, "--request", "2").output == f"{several.with_name('two-2.html')}\n"


def test_prints_json_with_states_and_the_difference(file: Path) -> None:
    found = json.loads(run(file, "--json", "--beside", "tool=qwen3_coder").output)
    [choice] = found["choices"]
    assert choice["sides"][0]["steps"][0]["state"] == "REASONING"
    assert choice["difference"]["step"] == 31


def test_bytes_that_are_no_characters_are_written_out(tmp_path: Path) -> None:
    file = write(tmp_path / "one.jsonl", record_text("</think>\N{SNOWMAN}", 1))
    assert r"\\xe2" in run(file, "--json").output


def test_a_reader_who_has_seen_enough_gets_no_error(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object) -> NoReturn:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    monkeypatch.setattr(main_module, "render_text", stop)
    assert run(file, "--text").output == ""


def test_no_colours_where_there_is_no_terminal(file: Path) -> None:
    assert "\x1b" not in run(file, "--text").output


def test_without_the_tokenizer_there_are_ids_and_the_reason(tmp_path: Path) -> None:
    recording = record_transcript("reasoning_call", path=str(tmp_path / "gone"))
    file = write(tmp_path / "one.jsonl", recording)
    found = json.loads(run(file, "--json").output)
    assert "Token ids only" in found["note"]
    assert run(file, "--text").exit_code == 0


@pytest.mark.parametrize(
    ("names", "shown"), [(ParserNames("hermes", "qwen3"), "linear"), (ParserNames("own"), "none")]
)
def test_parsers_that_are_not_here_are_replaced_with_the_reason(
    tmp_path: Path, names: ParserNames, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> NoReturn:
        raise SetupError("that engine is not installed")

    monkeypatch.setattr(load_model, "native_parsers", refuse)
    monkeypatch.setattr(load_model, "read_engine_tokenizer", refuse)
    recording = record_transcript("reasoning_call")
    model = msgspec.structs.replace(recording.model, parsers=names, kind="native")
    file = write(tmp_path / "one.jsonl", msgspec.structs.replace(recording, model=model))
    found = json.loads(run(file, "--json").output)
    assert "that engine is not installed" in found["note"]
    assert found["choices"][0]["sides"][0]["kind"] == shown


WRONG = [
    (("none.jsonl",), "none.jsonl"),
    (("--request", "9"), "there are 1 requests"),
    (("--beside", "hermes"), "--beside"),
    (("--beside", "tool=nobodys,kind=linear"), "nobodys"),
    (("--model", "/nowhere"), "--model"),
    (("--output", "/nowhere/page.html"), "/nowhere"),
]


@pytest.mark.parametrize(("arguments", "says"), WRONG)
def test_what_is_wrong_is_one_line(file: Path, arguments: tuple[str, ...], says: str) -> None:
    files = () if arguments[0].endswith(".jsonl") else (file,)
    result = run(*files, *arguments)
    assert result.exit_code == 2
    assert says in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    result = run(write(tmp_path / "empty.jsonl"))
    assert result.exit_code == 2
    assert "no requests" in result.stderr


def test_a_port_that_cannot_be_served_is_one_line(several: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        for given, says in ((port, "already in use; choose another"), ("99999", "0<=x<=65535")):
            result = run(several, "--serve", given)
            assert result.exit_code == 2
            assert says in result.stderr
            assert "--serve" in result.stderr


def test_serves_the_pages(several: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    served: list[str] = []

    def serve(port, rows, render) -> None:
        served.extend(render(row) for row in rows)

    monkeypatch.setattr(main_module, "serve_pages", serve)
    assert run(several, "--serve", "0").exit_code == 0
    assert ["chatcmpl-parallel_calls" in served[0], "chatcmpl-reasoning_call" in served[1]] == [
        True,
        True,
    ]


@pytest.mark.parametrize(
    ("text", "choice"),
    [
        ("kind=native", ParserChoice(kind="native")),
        ("tool=qwen3_coder", ParserChoice("qwen3_coder")),
        ("tool=none, reasoning=", ParserChoice("", "")),
        ("tool=a,reasoning=b,kind=auto", ParserChoice("a", "b", "auto")),
        ("", ParserChoice()),
    ],
)
def test_what_beside_omits_is_as_recorded(text: str, choice: ParserChoice) -> None:
    assert read_beside(text) == choice


@pytest.mark.parametrize("text", ["hermes", "tools=hermes", "kind=fast", "tool"])
def test_another_form_of_beside_is_refused(text: str) -> None:
    with pytest.raises(SetupError, match="--beside"):
        read_beside(text)
