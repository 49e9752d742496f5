"""The frontend's own flags, and what Dynamo is asked for."""

import importlib.util

import pytest
from backedge.frontend import main


@pytest.fixture
def installed(monkeypatch):
    def install(engines):
        monkeypatch.setattr(
            importlib.util,
            "find_spec",
            lambda package: object() if package in engines.split() else None,
        )

    return install


LINEAR = ["--postprocess-parsers", "linear"]
# arguments, engines that are there, back end, whose command line, what is left for Dynamo
FLAGS = [
    ([], "vllm sglang", None, "vllm", []),
    ([], "sglang", None, "sglang", []),
    ([], "", None, "sglang", []),
    (["--router-mode", "kv"], "vllm", None, "vllm", ["--router-mode", "kv"]),
    (["--tokenizer-backend", "huggingface", "--x"], "vllm", "huggingface", "sglang", ["--x"]),
    (["--tokenizer-backend", "sglang", "--x"], "vllm sglang", "sglang", "sglang", ["--x"]),
    (
        ["--tokenizer-backend", "sglang", "--postprocess-parsers", "native"],
        "sglang",
        "sglang",
        "sglang",
        [],
    ),
    (["--tokenizer-backend", "vllm"], "vllm", "vllm", "vllm", []),
    (["--dyn-chat-processor", "vllm"], "vllm", "vllm", "vllm", []),
    (LINEAR, "vllm", None, "vllm", LINEAR),
    (LINEAR, "", None, "sglang", []),
]


@pytest.mark.parametrize(("arguments", "engines", "backend", "processor", "left"), FLAGS)
def test_what_is_asked_of_a_frontend(installed, arguments, engines, backend, processor, left):
    installed(engines)
    flags = main.parse_flags(arguments)
    assert (flags.tokenizer.backend, flags.chat_processor, flags.other_arguments) == (
        backend,
        processor,
        left,
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ["--dyn-chat-processor", "sglang"],
        ["--dyn-chat-processor", "vllm", "--tokenizer-backend", "huggingface"],
        ["--tokenizer-backend", "huggingface", "--postprocess-parsers", "native"],
        ["--tokenizer-backend", "sglang"],
    ],
)
def test_flags_that_contradict_each_other_end_the_process(installed, arguments):
    installed("vllm")
    with pytest.raises(SystemExit, match="--"):
        main.parse_flags(arguments)
