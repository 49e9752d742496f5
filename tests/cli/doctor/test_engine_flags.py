"""Command lines, parsed with the flags of Dynamo and the engines."""

import contextlib
import io

import pytest
from backedge.base.errors import SetupError
from backedge.cli.doctor.engine_flags import check_dynamo_flags, parse_all
from backedge.frontend.main import parse_flags

from tests.support import TINY_MODEL

MODEL = ("--model", str(TINY_MODEL))
# flags, whether a vLLM worker takes them, part of what is said
VLLM = [
    ("--max-model-len 32k --enable-prefix-caching", True, ""),
    ("--vllm-processing --tool-call-parser hermes --postprocess-latency lowest", True, ""),
    ("--router-mode kv --router-temperature 0.5 --namespace n", True, ""),
    ("--kv-transfer-config.kv_role kv_both -O3 --hf-overrides.a 1", True, ""),
    ("--max-model-ln 3", False, "did you mean --max-model-len?"),
    ("--served-modell-name m", False, "did you mean --served-model-name?"),
    ("--max-model-len many", False, "--max-model-len"),
    ("--discovery-backend zookeper", False, "invalid choice: 'zookeper'"),
    ("--vllm-procesing", False, "did you mean --vllm-processing?"),
    ("--dtype flot16", False, "did you mean float16?"),
    ("--postprocess-parsers linnear", False, "did you mean linear?"),
    ("--postprocess-workers -1", False, "--postprocess-workers"),
    ("--tensor-parallel-size", False, "expected"),
]


@pytest.mark.parametrize(("words", "taken", "part"), VLLM)
def test_a_vllm_worker_and_doctor_refuse_the_same(words, taken, part):
    args = pytest.importorskip("dynamo.vllm.args")
    arguments = [*MODEL, *words.split()]
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            args.parse_args(list(arguments))
    except (SystemExit, ValueError):
        assert not taken
    else:
        assert taken
    if taken:
        parse_all("vllm", arguments)
        return
    with pytest.raises(SetupError) as caught:
        parse_all("vllm", arguments)
    assert part in str(caught.value)


SGLANG = [
    ("--context-length 2048 --sglang-processing --tool-call-parser hermes", ""),
    ("--mem-fraction-sttic 0.1", "did you mean --mem-fraction-static?"),
    ("--attention-backend torch_natve", "did you mean torch_native?"),
    ("--sglang-procesing", "did you mean --sglang-processing?"),
]


@pytest.mark.parametrize(("words", "part"), SGLANG)
def test_flags_of_an_sglang_worker(words, part):
    pytest.importorskip("sglang.srt.server_args")
    arguments = ["--model-path", "m", *words.split()]
    if not part:
        parse_all("sglang", arguments)
        return
    with pytest.raises(SetupError) as caught:
        parse_all("sglang", arguments)
    assert part in str(caught.value)


def test_flags_of_dynamos_frontend():
    ours = ["--tokenizer-backend", "huggingface"]
    check_dynamo_flags(parse_flags([*ours, "--router-mode", "kv", "--tool-call-parser", "hermes"]))
    for words, part in (
        ("--http-prt 3", "did you mean --http-port?"),
        ("--router-mode kw", "invalid choice"),
        ("--http-port x", "--http-port"),
    ):
        with pytest.raises(SetupError, match=part):
            check_dynamo_flags(parse_flags([*ours, *words.split()]))
