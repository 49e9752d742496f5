"""The command: a table or JSON, and the exit status."""

import json
import subprocess
import sys

import pytest
from backedge.testing.tokenizer_kit import CHECKS, STREAMING_CHECKS
from backedge.testing.tokenizer_kit.__main__ import main

from tests.support import EXAMPLES

EXAMPLE = "examples.my_tokenizer:MyTokenizer"
MINIMAL = "tests.tokenization.bad_modules:PromptsOnly"
BROKEN = "tests.tokenization.broken:LosesEmoji"


def test_a_table_and_status_0(capsys):
    assert main([EXAMPLE, "--model", "model"]) == 0
    *lines, total = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines].count("passed") == len(CHECKS) - 1
    assert total == f"{EXAMPLE} keeps the contract: {len(CHECKS) - 1} passed, 0 failed, 1 skipped"


def test_status_1_names_what_is_wrong(capsys):
    assert main([BROKEN, "--model", "model"]) == 1
    output = capsys.readouterr().out
    assert [line for line in output.splitlines() if line.startswith("failed   emoji")]
    assert f"{BROKEN} breaks the contract: " in output


def test_json(capsys):
    assert main([BROKEN, "--model", "model", "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert (report["tokenizer"], report["model"], report["passed"]) == (BROKEN, "model", False)
    assert [check["check"] for check in report["checks"]] == [check.name for check in CHECKS]
    assert {check["outcome"] for check in report["checks"]} == {"passed", "failed", "skipped"}
    emoji = next(check for check in report["checks"] if check["check"] == "emoji")
    assert emoji["required"]
    assert "😀" in emoji["detail"]


def test_streaming_only(capsys):
    name = "tests.tokenization.examples:StreamsOnly"
    assert main([name, "--model", "model"]) == 2, "it has no encode"
    assert main([name, "--model", "model", "--streaming-only"]) == 0
    assert f"{name} keeps the contract: {len(STREAMING_CHECKS)} passed" in capsys.readouterr().out
    assert main([MINIMAL, "--model", "model", "--streaming-only"]) == 2
    assert "its instances cannot be called with texts" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("no_such_module:X", "could not be imported: ModuleNotFoundError"),
        ("examples.my_tokenizer:X", "the module has no X; its tokenizers: MyTokenizer."),
        (
            "tests.tokenization.bad_modules:Raises",
            "constructed: FileNotFoundError: no vocab.txt in model",
        ),
        ("examples.my_tokenizer", "write it as package.module:Class"),
    ],
)
def test_status_2_for_what_cannot_be_loaded(name, said, capsys):
    assert main([name, "--model", "model"]) == 2
    captured = capsys.readouterr()
    assert said in captured.err
    assert not captured.out


def test_status_2_for_wrong_usage():
    with pytest.raises(SystemExit) as caught:
        main([EXAMPLE])
    assert caught.value.code == 2


def test_as_a_command():
    command = [sys.executable, "-m", "backedge.tokenization.kit", EXAMPLE, "--model", "model"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=EXAMPLES.parent, check=False)
    assert done.returncode == 0, done.stderr
    assert "keeps the contract" in done.stdout
