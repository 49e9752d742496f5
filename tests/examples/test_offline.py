"""The examples of generation without a server, each run as its page says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from examples.make_vision_model import make
from tests.offline.batch_files import WITHOUT_PARSERS, build_command, read_answers
from tests.offline.vision_rows import make_image
from tools.stack import ROOT

EXAMPLES = ROOT / "examples"


def run_example(name: str, *flags: str) -> str:
    command = [sys.executable, str(EXAMPLES / name), *flags]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_a_text_job() -> None:
    assert run_example("text_job.py") == (
        "Say hello.\n  Hello! How can I help you today?\n  21 tokens, stop\n"
        "Greet the world.\n  Grüße an alle! 你好，世界。こんにちは 👋🏽 ça va?\n"
        "  57 tokens, stop\n"
        "List the letters.\n  alpha, beta, gamma, delta\n  24 tokens, stop at ', epsilon'\n"
    )


def test_a_plugin_of_one_s_own() -> None:
    assert run_example("my_plugin.py") == "Hello!\n  stop at 'one sentence'\n"


def test_an_image_job(tmp_path: Path) -> None:
    model, pictures = tmp_path / "model", tmp_path / "pictures"
    make(model)
    pictures.mkdir()
    make_image(280, 140).save(pictures / "wide.png")
    make_image(1400, 1400).save(pictures / "large.png")
    (pictures / "notes.txt").write_text("no image")
    flags = ("--model", str(model), "--max-pixels", str(50 * 28 * 28), "--max-new-tokens", "3")
    large, notes, wide = run_example("image_job.py", str(pictures), *flags).splitlines()
    tokens = [int(line.split("(")[-1].split()[0]) for line in (large, wide)]
    # A budget of 50 tokens: a square has up to 7 x 7 of them, and the wide one all.
    assert tokens[0] == tokens[1] - 1
    assert notes.startswith("notes.txt: failed (image): ")


def test_the_command_takes_a_plugin_of_one_s_own(tmp_path: Path) -> None:
    source, output = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text('{"messages": [{"role": "user", "content": "Say hello."}]}\n')
    command = build_command(
        source, output, "--plugin", "my_plugin:OneSentence", base=WITHOUT_PARSERS
    )
    subprocess.run(command, env={**os.environ, "PYTHONPATH": str(EXAMPLES)}, check=True)
    [answer] = read_answers(output)
    assert answer["response"]["text"] == "Hello!"
    assert answer["response"]["stop_reason"] == "one sentence"
