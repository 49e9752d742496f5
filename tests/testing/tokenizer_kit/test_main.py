"""The command: a table or JSON, and the exit status."""

import json
import subprocess
import sys

import pytest
from backedge.testing.tokenizer_kit import CHECKS, STREAMING_CHECKS
from backedge.testing.tokenizer_kit.__main__ import main
from click.testing import CliRunner, Result

from tests.support import EXAMPLES

EXAMPLE = "examples.my_tokenizer:MyTokenizer"
MINIMAL = "tests.tokenization.bad_modules:PromptsOnly"
BROKEN = "tests.tokenization.broken:LosesEmoji"


def check(tokenizer: str, *flags: str) -> Result:
    return CliRunner().invoke(main, [tokenizer, "--model", "model", *flags])


def test_a_table_and_status_0():
    result = check(EXAMPLE)
    assert result.exit_code == 0
    *lines, total = result.stdout.splitlines()
    assert [line.split()[0] for line in lines].count("passed") == len(CHECKS) - 1
    assert total == f"{EXAMPLE} keeps the contract: {len(CHECKS) - 1} passed, 1 skipped"


def test_status_1_names_what_is_wrong():
    result = check(BROKEN)
    assert result.exit_code == 1
    assert [line for line in result.stdout.splitlines() if line.startswith("failed   emoji")]
    assert f"{BROKEN} breaks the contract: " in result.stdout


def test_without_dill_no_verdict_is_given(monkeypatch):
    monkeypatch.setitem(sys.modules, "dill", None)
    result = check(EXAMPLE)
    assert result.exit_code == 2
    assert "dill is not installed" in result.stdout
    assert f"{EXAMPLE} may keep the contract: " in result.stdout


def test_json():
    result = check(BROKEN, "--json")
    assert result.exit_code == 1
    report = json.loads(result.stdout)
    assert (report["tokenizer"], report["model"], report["passed"]) == (BROKEN, "model", False)
    assert [check["check"] for check in report["checks"]] == [check.name for check in CHECKS]
    assert {check["outcome"] for check in report["checks"]} == {"passed", "failed", "skipped"}
    emoji = next(check for check in report["checks"] if check["check"] == "emoji")
    assert emoji["required"]
    assert "😀" in emoji["detail"]


def test_streaming_only():
    name = "tests.tokenization.examples:StreamsOnly"
    assert check(name).exit_code == 2, "it has no encode"
    result = check(name, "--streaming-only")
    assert result.exit_code == 0
    assert (
        f"{name} keeps the contract: {len(STREAMING_CHECKS) - 2} passed, 2 skipped" in result.stdout
    )
    for other in ("StreamsOnly", "WithoutArgument"):
        name = f"tests.tokenization.examples:{other}"
        assert CliRunner().invoke(main, [name, "--streaming-only"]).exit_code == 0, other
    result = check(MINIMAL, "--streaming-only")
    assert result.exit_code == 2
    assert "its instances cannot be called with texts" in result.stderr


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("no_such_module:X", "could not be imported: ModuleNotFoundError"),
        ("examples.my_tokenizer:X", "the module has no X; its tokenizers: MyTokenizer."),
        (
            "tests.tokenization.bad_modules:Raises",
            "constructed: FileNotFoundError: no vocab.txt in model",
        ),
        (
            "tests.tokenization.examples:WithoutArgument",
            "WithoutArgument for model model could not be constructed: TypeError",
        ),
        ("examples.my_tokenizer", "write it as package.module:Class"),
    ],
)
def test_status_2_for_what_cannot_be_loaded(name, said):
    result = check(name)
    assert result.exit_code == 2
    assert said in result.stderr
    assert not result.stdout


def test_status_2_for_wrong_usage():
    result = CliRunner().invoke(main, [EXAMPLE])
    assert result.exit_code == 2
    assert "--model is missing" in result.stderr


def test_as_a_command():
    command = [sys.executable, "-m", "backedge.tokenization.kit", EXAMPLE, "--model", "model"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=EXAMPLES.parent, check=False)
    assert done.returncode == 0, done.stderr
    assert "keeps the contract" in done.stdout
