"""What the vLLM adapter checks before the engine loads."""

import argparse
import importlib.metadata
from types import SimpleNamespace

import pytest
from backedge.parsers.errors import SetupError, UnknownParserError
from backedge.worker import flags, vllm

SETTINGS = flags.WorkerSettings()


def config(mode="agg", **fields):
    defaults = {"use_vllm_tokenizer": False, "embedding_worker": False, "classify_worker": False, "headless": False}
    return SimpleNamespace(disaggregation_mode=SimpleNamespace(value=mode), **{**defaults, **fields})


def versions(monkeypatch, **found):
    real = importlib.metadata.version
    monkeypatch.setattr(importlib.metadata, "version", lambda name: found.get(name.replace("-", "_")) or real(name))


@pytest.mark.parametrize(
    ("found", "named"),
    [
        ({"ai_dynamo": "1.5.2"}, "ai-dynamo 1.5.2"),
        ({"vllm": "0.32.0"}, "vllm 0.32.0"),
        ({"ai_dynamo": "1.60.0"}, "1.60"),
    ],
)
def test_other_versions_are_refused_by_name(monkeypatch, found, named):
    versions(monkeypatch, **found)
    with pytest.raises(SetupError, match=named) as caught:
        vllm.check_versions()
    assert "1.6.x" in str(caught.value)
    assert "0.31.x" in str(caught.value)


def test_these_versions_and_seams_are_the_supported_ones():
    vllm.check_versions()
    vllm.check_seams()


def generate_otherwise(self, something_else):
    """Stands for a handler of another version of Dynamo."""


def test_a_seam_that_looks_otherwise_is_refused(monkeypatch):
    from dynamo.vllm import handlers

    monkeypatch.setattr(handlers.DecodeWorkerHandler, "generate", generate_otherwise)
    with pytest.raises(SetupError, match=r"DecodeWorkerHandler\.generate"):
        vllm.check_seams()


def test_text_mode_is_refused():
    with pytest.raises(SetupError, match="--use-vllm-tokenizer"):
        vllm.enable(config(use_vllm_tokenizer=True), SETTINGS)


def test_unknown_names_are_refused_with_the_known_ones():
    with pytest.raises(UnknownParserError, match="hermes"):
        vllm.enable(config(), flags.WorkerSettings(tool_call_parser="nope"))
    with pytest.raises(UnknownParserError, match="deepseek_r1"):
        vllm.enable(config(), flags.WorkerSettings(reasoning_parser="nope"))


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
    assert vllm.post_processes(worker) is expected


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], None),
        (["--vllm-processing"], flags.WorkerSettings()),
        (["--native-framework-processing", "--tool-call-parser", "x"], flags.WorkerSettings(tool_call_parser="x")),
        (["--vllm-processing", "--postprocess-on-error", "fail"], flags.WorkerSettings(on_error="fail")),
    ],
)
def test_flags(arguments, expected):
    parser = argparse.ArgumentParser()
    parser.add_argument("--reasoning-parser")
    flags.add_to(parser)
    assert flags.settings(parser.parse_args(arguments)) == expected


def test_flags_that_the_parser_has_are_left_to_it():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tool-call-parser", default="its own")
    flags.add_to(parser)
    assert parser.parse_args([]).tool_call_parser == "its own"
