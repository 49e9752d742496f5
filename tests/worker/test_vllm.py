"""What the vLLM adapter checks before the engine loads."""

import argparse
from types import SimpleNamespace

import pytest
from backedge.parsers.base import ParserNames
from backedge.parsers.errors import SetupError, UnknownParserError
from backedge.worker import flags
from backedge.worker.adapters import vllm

SETTINGS = flags.WorkerSettings()


def config(mode="agg", **fields):
    defaults = {
        "use_vllm_tokenizer": False,
        "embedding_worker": False,
        "classify_worker": False,
        "headless": False,
    }
    return SimpleNamespace(
        disaggregation_mode=SimpleNamespace(value=mode), **{**defaults, **fields}
    )


def test_text_mode_is_refused():
    with pytest.raises(SetupError, match="--use-vllm-tokenizer"):
        vllm.VllmWorker.enable(config(use_vllm_tokenizer=True), SETTINGS)


def test_unknown_names_are_refused_with_the_known_ones():
    with pytest.raises(UnknownParserError, match="hermes"):
        vllm.VllmWorker.enable(config(), flags.WorkerSettings(names=ParserNames("nope")))
    with pytest.raises(UnknownParserError, match="deepseek_r1"):
        vllm.VllmWorker.enable(config(), flags.WorkerSettings(names=ParserNames(reasoning="nope")))


@pytest.mark.parametrize(
    ("worker", "expected"),
    [
        (config("agg"), True),
        (config("decode"), True),
        (config("prefill"), False),
        (config("encode"), False),
        (config(embedding_worker=True), False),
        (config(classify_worker=True), False),
        (config(headless=True), False),
    ],
)
def test_who_post_processes(worker, expected):
    assert vllm.VllmWorker(worker, SETTINGS).post_processes() is expected


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], None),
        (["--vllm-processing"], flags.WorkerSettings()),
        (
            ["--native-framework-processing", "--tool-call-parser", "x"],
            flags.WorkerSettings(names=ParserNames("x")),
        ),
        (
            ["--vllm-processing", "--postprocess-on-error", "fail"],
            flags.WorkerSettings(on_error="fail"),
        ),
    ],
)
def test_flags(arguments, expected):
    parser = argparse.ArgumentParser()
    parser.add_argument("--reasoning-parser")
    flags.add_to(parser, "vllm")
    assert flags.settings(parser.parse_args(arguments), "vllm") == expected


def test_flags_that_the_parser_has_are_left_to_it():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tool-call-parser", default="its own")
    flags.add_to(parser, "vllm")
    assert parser.parse_args([]).tool_call_parser == "its own"
