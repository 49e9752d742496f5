"""Whatever a stranger has written, no command lets a terminal obey it."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from backedge.base.hidden_characters import is_hidden
from backedge.cli.main import COMMANDS, main
from backedge.parsers.base import ParserNames
from click.testing import CliRunner

from tests.cli.doctor.fleets import HERMES, card, frontend_answers, serve, write_cards
from tests.cli.recorded import record_text, record_transcript, write
from tests.offline.batch_files import REPLAY

ROOT = Path(__file__).parent.parent.parent
COMMAND = "\x1b]0;pwned\x07\x1b[2J\x9b31m\x85\u202e\u200b\u2066\U000e0041"
HOSTILE = f"a{COMMAND}\nok       forged: line"
# The styles of click that our lines have.
OURS = ["\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[34m", "\x1b[35m", "\x1b[36m", "\x1b[90m"]
OURS += ["\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[9m"]


def write_hostile_recording(folder: Path) -> list[str]:
    """Write recordings with a hostile text in each field that may hold one."""
    one = record_text(f"</think>{COMMAND}", response_id=HOSTILE, model=HOSTILE, stop=[HOSTILE])
    structs = msgspec.structs
    other = structs.replace(
        record_transcript("reasoning_call", response_id=f"{HOSTILE}2"), error=HOSTILE
    )
    model = structs.replace(other.model, engine=HOSTILE, parsers=ParserNames(HOSTILE, HOSTILE))
    gone = structs.replace(other.model, path=HOSTILE)
    return [
        str(write(folder / "one.jsonl", one)),
        str(write(folder / "names.jsonl", structs.replace(other, model=model))),
        str(write(folder / f"path{COMMAND}.jsonl", structs.replace(other, model=gone))),
    ]


def write_hostile_model(folder: Path) -> str:
    model = folder / f"model{COMMAND}"
    model.mkdir()
    (model / "config.json").write_text(json.dumps({"model_type": HOSTILE}))
    (model / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": HOSTILE, "chat_template": "{{ " + HOSTILE})
    )
    return str(model)


def inspect_and_replay(folder: Path) -> list[list[str]]:
    files = write_hostile_recording(folder)
    first = [
        [*command, name]
        for name in files
        for command in (["inspect", "--text"], ["inspect", "--json"], ["inspect"], ["replay"])
    ]
    others = [["replay", "--json", files[0]], ["replay", files[0], "--chunks", "1"]]
    lists = [["inspect", *files], ["inspect", "--json", *files]]
    return [*first, *others, *lists, ["inspect", files[0], "--request", HOSTILE]]


def doctor(folder: Path) -> list[list[str]]:
    own = msgspec.structs.replace(HERMES, tool_call_parser=HOSTILE, engine=HOSTILE)
    discovery = write_cards(folder, card(HOSTILE, own), card(HOSTILE, worker_type=HOSTILE))
    lies = [(200, HOSTILE), (500, COMMAND)]
    for answers in (frontend_answers(HOSTILE), *({"/v1/models": lie} for lie in lies)):
        with serve(answers) as url:
            check(["doctor", url, "--discovery", discovery])
            check(["doctor", url, "--discovery", discovery, "--json"])
    return [["doctor", write_hostile_model(folder)], ["doctor", HOSTILE]]


def parse(folder: Path) -> list[list[str]]:
    text = folder / "text"
    call = f'<tool_call>{{"name": "{COMMAND[-2:]}", "arguments": {{}}}}</tool_call>'
    text.write_text(f"{COMMAND}{call}")
    plain = ["parse", "--format", "hermes", str(text)]
    return [plain, [*plain, "--json"], ["parse", "--format", HOSTILE, str(text)]]


def offline(folder: Path) -> list[list[str]]:
    rows = folder / f"rows{COMMAND}.jsonl"
    rows.write_text(json.dumps({"custom_id": HOSTILE, "messages": COMMAND}) + "\n")
    flags = ["--input", str(rows), "--output", str(folder / f"out{COMMAND}")]
    return [["offline", *REPLAY, *flags], ["offline", *flags, "--model", HOSTILE]]


def others(_: Path) -> list[list[str]]:
    return [["parsers"], ["parsers", "--json"], ["completion", "bash"], [HOSTILE]]


def top(_: Path) -> list[list[str]]:
    return [
        ["top", "--times", "1", "--every", "0.1", url] for url in (HOSTILE, f"http://{HOSTILE}")
    ]


BUILD = [inspect_and_replay, doctor, parse, offline, top, others]


def check(command: list[str]) -> None:
    result = CliRunner().invoke(main, command, color=True)
    text = result.output
    for style in OURS:
        text = text.replace(style, "")
    shown = [line for line in text.split("\n") if any(map(is_hidden, line.replace("\t", "")))]
    assert shown == [], command
    assert "\nok       forged" not in text, command
    assert result.exception is None or isinstance(result.exception, SystemExit), command


@pytest.mark.parametrize("build", BUILD, ids=lambda build: build.__name__)
def test_nothing_is_obeyed(build: Callable[[Path], list[list[str]]], tmp_path: Path) -> None:
    for command in build(tmp_path):
        check(command)


def test_every_command_is_tried() -> None:
    names = {*COMMANDS} - {"completion", "parsers", "frontend-flags"}  # they show no foreign text
    assert names <= {"inspect", "replay", "doctor", "parse", "offline", "top"}


# What writes to a stream without base/terminal.py, and why.
WRITERS = {
    "cli/top.py": "the code that clears the screen",
    "frontend/flags.py": "the help of our own flags",
    "worker/pool/fork_server_main.py": "errors of the system, in a process without our modules",
}
PACKAGES = ("base", "cli", "frontend", "offline", "recording", "testing", "worker", "engines")


def writes(node: ast.AST) -> bool:
    """Whether a call writes to a standard stream."""
    if not isinstance(node, ast.Call):
        return False
    name = ast.unparse(node.func)
    return name in {"print", "click.echo", "click.secho", "click.style", "echo"} or name.startswith(
        ("sys.stdout.", "sys.stderr.")
    )


def test_strangers_texts_are_printed_by_one_module() -> None:
    found = {
        path.relative_to(ROOT).as_posix()
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        if any(map(writes, ast.walk(ast.parse(path.read_text(encoding="utf-8")))))
    }
    assert found == {"base/terminal.py", *WRITERS}


def test_every_logger_makes_its_lines_visible() -> None:
    direct = {
        path.relative_to(ROOT).as_posix()
        for package in (*PACKAGES, "parsers", "postprocess", "templates", "tokenization", "guided")
        for path in (ROOT / package).rglob("*.py")
        if "getLogger(__name__)" in path.read_text(encoding="utf-8")
    }
    assert direct == set()
