"""A tokenizer back end chosen on a worker: a plain one, or of the other engine than its own."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.e2e.client import Client
from tests.e2e.conftest import CLASS, MODULE, ON_PATH
from tests.e2e.forked import ForkingStack
from tests.support import TINY_MODEL, TRANSCRIPTS
from tools.stack import Process, Stack

WRAPPED = "tests.engines.frontends.edge_tokenizer"
PYTHON = ("--tokenizer-backend", "python", MODULE, WRAPPED, CLASS, "Wrapped")


def start_worker(stack: Stack, engine: str, *flags: str, **environment: str) -> Process:
    if engine == "replay":
        return stack.replay("--plain", *flags, wait=False, **environment)
    start: Any = stack.worker if engine == "vllm" else stack.sglang
    worker: Process = start(*flags, wait=False, **environment)
    return worker


@pytest.mark.parametrize("engine", ["vllm", "sglang", "replay"])
def test_the_frontend_uses_the_tokenizer_of_a_plain_worker(tmp_path: Path, engine: str) -> None:
    with ForkingStack(tmp_path) as stack:
        start_worker(stack, engine, *PYTHON, **ON_PATH)
        allowed = stack.frontend("--allow-tokenizer-module", WRAPPED, wait=False, **ON_PATH)
        strict = stack.frontend(wait=False, **ON_PATH)
        for frontend in (allowed, strict):
            stack.wait_for_model(frontend)
        assert "Wrapped" in allowed.log.read_text()
        question = TRANSCRIPTS["plain_text"]
        answer = Client(allowed.url, "tiny").ask(question).message
        assert answer == question["expect"]
        with pytest.raises(openai.InternalServerError, match="--allow-tokenizer-module") as refused:
            Client(strict.url, "tiny").ask(question)
        assert refused.value.status_code == 503
        assert "is not served" in strict.log.read_text()


@pytest.mark.parametrize(
    ("name", "plain"), [("PromptsOnly", True), ("PromptsOnly", False), ("create", False)]
)
def test_little_is_enough(tmp_path: Path, name: str, plain: bool) -> None:
    flags = (
        ("--plain", "--dyn-tool-call-parser", "hermes")
        if plain
        else ("--tool-call-parser", "hermes")
    )
    with ForkingStack(tmp_path) as stack:
        stack.replay(*flags, *PYTHON[:-1], name, wait=False, **ON_PATH)
        frontend = stack.frontend("--allow-tokenizer-module", WRAPPED, wait=False, **ON_PATH)
        stack.wait_for_model(frontend)
        for transcript in ("multilingual_text", "parallel_calls"):
            question = TRANSCRIPTS[transcript]
            assert Client(frontend.url, "tiny").ask(question).message == question["expect"]


@pytest.mark.parametrize("flags", [(), ("--plain",)])
def test_the_replay_worker_needs_no_tokenizer_json(tmp_path: Path, flags: tuple[str, ...]) -> None:
    model = tmp_path / "model"
    ignored = shutil.ignore_patterns("tokenizer.json", "*.safetensors")
    shutil.copytree(TINY_MODEL, model, ignore=ignored)
    own = (MODULE, "my_tokenizer", CLASS, "MyTokenizer", "--model", str(model))
    with ForkingStack(tmp_path) as stack:
        worker = stack.replay(*flags, *PYTHON[:2], *own, wait=False, **ON_PATH)
        frontend = stack.frontend("--allow-tokenizer-module", "my_tokenizer", **ON_PATH)
        stack.wait_for_model(frontend)
        question = TRANSCRIPTS["plain_text"]
        for stream in (True, False):
            answer = Client(frontend.url, "tiny").ask(question, stream=stream).message
            assert answer == question["expect"]
        assert "this model cannot call tools" in worker.log.read_text()


@pytest.mark.parametrize(
    ("engine", "backend", "tokenizer"),
    [("vllm", "sglang", "transformers."), ("sglang", "vllm", "vllm."), ("vllm", "vllm", "vllm.")],
)
def test_the_back_end_that_encodes_decodes_in_the_worker(
    tmp_path: Path, engine: str, backend: str, tokenizer: str
) -> None:
    flags = (f"--{engine}-processing", "--tool-call-parser", "hermes", "--tokenizer-backend")
    with ForkingStack(tmp_path) as stack:
        worker = start_worker(stack, engine, *flags, backend)
        frontend = stack.frontend(wait=False)
        stack.wait_for_model(frontend)
        for transcript in ("multilingual_text", "parallel_calls"):
            question = TRANSCRIPTS[transcript]
            assert Client(frontend.url, "tiny").ask(question).message == question["expect"]
        assert f", tokenizer {tokenizer}" in worker.log.read_text()
