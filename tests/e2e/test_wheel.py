"""A wheel, installed outside the checkout: it brings the examples that it replays."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
import venv
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.client import Client
from tests.support import TRANSCRIPTS
from tools.stack import ROOT, Stack

FILES = ("pyproject.toml", "README.md", "LICENSE")
OFFLINE = ("--no-deps", "--no-index")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
# The source folders that the wheel is built from.
FOLDERS = {Path(name).parts[0] for name in PROJECT["tool"]["setuptools"]["package-dir"].values()}
NAME = "tiny_model"


def run_pip(*arguments: str | Path) -> None:
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
    subprocess.run(command, check=True)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return a copy of the source, and the wheel made of it. Nothing is downloaded."""
    folder = tmp_path_factory.mktemp("wheel")
    # A copy: setuptools leaves its build folder in the source tree, and packages what is there.
    source, wheels = folder / "source", folder / "wheels"
    for name in FOLDERS:
        shutil.copytree(ROOT / name, source / name)
    for name in FILES:
        shutil.copy(ROOT / name, source / name)
    run_pip("wheel", *OFFLINE, "--no-build-isolation", "--wheel-dir", wheels, source)
    (wheel,) = wheels.glob("*.whl")
    return source, wheel


@pytest.fixture(scope="module")
def site_packages(built: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a fresh installation."""
    target = tmp_path_factory.mktemp("installed")
    run_pip("install", *OFFLINE, "--target", target, built[1])
    return target


def test_the_replay_worker_finds_the_examples_of_its_own_installation(
    site_packages: Path, tmp_path: Path
) -> None:
    program = "from backedge.testing.transcripts import EXAMPLES; print(EXAMPLES)"
    printed = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(site_packages)},
        capture_output=True,
        text=True,
        check=True,
    )
    examples = Path(printed.stdout.strip())
    assert examples == site_packages / "backedge" / "examples"
    names = {path.name for path in examples.rglob("*")}
    assert {"tokenizer.json", "chat_template.jinja", "text.jsonl"} <= names
    assert "model.safetensors" not in names


def install_wheel(source: Path, wheel: Path, python: Path) -> None:
    run_pip("--python", python, "install", *OFFLINE, wheel)


def install_editable(source: Path, wheel: Path, python: Path) -> None:
    run_pip("--python", python, "install", *OFFLINE, "--no-build-isolation", "-e", source)


@pytest.mark.parametrize("install", [install_wheel, install_editable])
def test_dynamos_frontend_with_a_switch_is_ours_once_its_line_is_installed(
    install: Callable[[Path, Path, Path], None], built: tuple[Path, Path], tmp_path: Path
) -> None:
    venv.create(tmp_path, symlinks=True)
    python = tmp_path / "bin/python"
    (own,) = tmp_path.glob("lib/python*/site-packages")
    others = [path for path in sys.path if path.endswith("site-packages")]
    (own / "others.pth").write_text("\n".join(others), encoding="utf-8")
    install(*built, python)

    def run(*arguments: str) -> str:
        command = [str(python), "-m", *arguments]
        env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        done = subprocess.run(
            command, cwd=tmp_path, env=env, capture_output=True, text=True, check=True
        )
        return done.stdout

    stock = run("dynamo.frontend", "--help")
    asked = ("dynamo.frontend", "--sglang-processing", "--dyn-chat-processor", "sglang", "--help")
    assert run(*asked) == stock
    assert str(own) in run("backedge.cli", "frontend-flags", "--install")
    ours = run(*asked)
    assert "--allow-tokenizer-module" in ours
    assert ours.endswith(stock)
    run("backedge", "frontend-flags", "--remove")
    assert run(*asked) == stock


def test_a_stack_from_the_wheel_answers(site_packages: Path, tmp_path: Path) -> None:
    parsers = ("--tool-call-parser", "hermes", "--reasoning-parser", "qwen3")
    with Stack(tmp_path, PYTHONPATH=str(site_packages)) as stack:
        stack.replay(*parsers, name=NAME, wait=False)
        frontend = stack.frontend("--tokenizer-backend", "huggingface", wait=False)
        stack.wait_for_model(frontend, NAME)
        transcript = TRANSCRIPTS["reasoning_text"]
        response = Client(frontend.url, NAME).ask(transcript, stream=True)
    assert response.message == transcript["expect"]
