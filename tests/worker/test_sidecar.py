"""The command line of the worker beside an engine; the real stack runs in tests/e2e."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from backedge.worker.llm_engine import PostprocessedEngine
from backedge.worker.sidecar import build

from tests.support import TINY_MODEL

MODEL = ("--model", str(TINY_MODEL))
ENGINE = ("--engine", "grpc://127.0.0.1:1")


def run(*argv: str) -> tuple[Any, Any]:
    return asyncio.run(build(list(argv)))


def test_builds_the_engine_and_dynamo_s_configuration() -> None:
    engine, config = run(
        *(*MODEL, *ENGINE, "--vllm-processing", "--tool-call-parser", "hermes"),
        *("--served-model-name", "m", "--endpoint", "dyn://a.b.c", "--discovery-backend", "file"),
    )
    assert isinstance(engine, PostprocessedEngine)
    assert (config.namespace, config.component, config.endpoint) == ("a", "b", "c")
    assert (config.model_name, config.served_model_name) == (str(TINY_MODEL), "m")
    assert engine.engine_name == "vllm"


@pytest.mark.parametrize(
    ("argv", "named"),
    [
        ((*MODEL, "--vllm-processing", "--engine", "127.0.0.1:1"), "--engine"),
        ((*MODEL, "--vllm-processing", "--engine", "grpc://host"), "--engine"),
        ((*MODEL, "--vllm-processing", "--engine", "grpc://host:port"), "--engine"),
        ((*MODEL, "--vllm-processing"), "--engine"),
        ((*ENGINE, "--vllm-processing"), "--model"),
        ((*MODEL, *ENGINE), "--vllm-processing"),
        ((*MODEL, *ENGINE, "--vllm-procesing"), "--vllm-processing"),
        ((*MODEL, *ENGINE, "--vllm-processing", "--engine-timeout-s", "0"), "--engine-timeout-s"),
    ],
)
def test_a_wrong_command_ends_with_a_sentence(
    argv: tuple[str, ...], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        run(*argv)
    assert named in f"{ended.value} {capsys.readouterr().err}"
