"""Flags with which a vLLM worker does not start: it says why before it loads the model."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.conftest import CLASS, MODULE
from tests.e2e.forked import ForkingStack
from tools.stack import Stack

PYTHON = ("--tokenizer-backend", "python")
# flags, part of the message
REFUSED = [
    (("--tool-call-parser", "nope"), "--tool-call-parser 'nope' is not known"),
    (("--reasoning-parser", "nope"), "nope"),
    (("--reasoning-parser", "openai_gptoss"), "has none of <|message|>"),
    (
        ("--reasoning-parser", "openai_gptoss", "--postprocess-parsers", "native"),
        "only finds where reasoning ends",
    ),
    (("--tool-parser-plugin", "/nowhere.py"), "--tool-parser-plugin"),
    (("--use-vllm-tokenizer",), "--use-vllm-tokenizer"),
    ((*PYTHON, MODULE, "no_such_module", CLASS, "C"), "ModuleNotFoundError"),
    (PYTHON, "needs --tokenizer-module"),
    ((MODULE, "m"), "which is not set"),
    (("--tokenizer-backend", "abacus"), "huggingface"),
    (("--tokenizer-backend", "huggingface", "--use-vllm-tokenizer"), "answer with text"),
]


# The same for a worker without --vllm-processing.
REFUSED_PLAIN = [
    (PYTHON, "needs --tokenizer-module"),
    ((*PYTHON, MODULE, "m"), "needs --tokenizer-class"),
    ((CLASS, "C"), "which is not set"),
    (("--tokenizer-backend", "huggingface", "--use-vllm-tokenizer"), "--use-vllm-tokenizer"),
]


def check_refusal(stack: Stack, flags: tuple[str, ...], message: str) -> None:
    with stack:
        worker = stack.worker(*flags, wait=False)
        assert worker.popen.wait(timeout=240) != 0
        assert message in worker.tail()
        assert "Starting to load model" not in worker.log.read_text()


@pytest.mark.parametrize(("flags", "message"), REFUSED, ids=[" ".join(f) for f, _ in REFUSED])
def test_a_worker_refuses_to_start(tmp_path: Path, flags: tuple[str, ...], message: str) -> None:
    check_refusal(ForkingStack(tmp_path), ("--vllm-processing", *flags), message)


@pytest.mark.parametrize(
    ("flags", "message"), REFUSED_PLAIN, ids=[" ".join(f) for f, _ in REFUSED_PLAIN]
)
def test_so_does_a_plain_one(tmp_path: Path, flags: tuple[str, ...], message: str) -> None:
    check_refusal(ForkingStack(tmp_path), flags, message)


def test_so_does_a_worker_that_is_not_forked(tmp_path: Path) -> None:
    flags, message = REFUSED[0]
    check_refusal(Stack(tmp_path), ("--vllm-processing", *flags), message)
