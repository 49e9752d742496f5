"""The replay worker's command line."""

import pytest
from backedge.base.errors import SetupError, UnknownParserError
from backedge.parsers.base import ParserNames
from backedge.testing.replay_worker.flags import RUNTIME_FLAGS, build_flag_parser, build_worker
from backedge.tokenization import TokenizerLoadError

PYTHON = ("--tokenizer-backend", "python", "--tokenizer-module")


def build(*arguments):
    return build_worker(build_flag_parser().parse_args(arguments))


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--tool-call-parser", "nonsense"], UnknownParserError),
        (["--tool-call-parser", "nonsense", "--postprocess-parsers", "auto"], UnknownParserError),
        (["--tokens-per-chunk", "0"], SetupError),
        (["--tokens-per-second", "-1"], SetupError),
        (["--transcripts", "/nonexistent"], SetupError),
        (["--model", "/nonexistent"], SetupError),
        (["--tokenizer-backend", "python"], SetupError),
        (["--tokenizer-class", "C"], SetupError),
        (["--plain", "--tool-call-parser", "hermes"], SetupError),
        (["--plain", "--reasoning-parser", "auto"], SetupError),
        ([*PYTHON, "no.such.module", "--tokenizer-class", "C"], TokenizerLoadError),
    ],
)
def test_flags_that_cannot_be_end_the_worker_at_start(arguments, error):
    with pytest.raises(error):
        build(*arguments)


@pytest.mark.parametrize(("flag", "variable", "default"), RUNTIME_FLAGS)
def test_dynamos_flags_have_its_variables_and_defaults(flag, variable, default, monkeypatch):
    dest = flag.removeprefix("--").replace("-", "_")
    monkeypatch.delenv(variable, raising=False)
    assert getattr(build_flag_parser().parse_args([]), dest) == default
    monkeypatch.setenv(variable, "set")
    assert getattr(build_flag_parser().parse_args([]), dest) == "set"
    assert getattr(build_flag_parser().parse_args([flag, "given"]), dest) == "given"


def test_auto_is_what_the_model_writes():
    worker = build("--tool-call-parser", "auto", "--reasoning-parser", "auto")
    assert worker.settings.names == ParserNames("hermes", "qwen3")
