"""Command lines, parsed with the flags of Dynamo and the engines."""

import sys

import pytest
from backedge.base.errors import SetupError
from backedge.cli.doctor.engine_flags import parse_all

from tests.support import TINY_MODEL

VLLM_WORKER = "dynamo.vllm.args"
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


def test_a_workers_switch_is_none_of_doctors(monkeypatch):
    pytest.importorskip(VLLM_WORKER)
    monkeypatch.delitem(sys.modules, VLLM_WORKER)
    arguments = ["--model", str(TINY_MODEL), "--vllm-processing"]
    monkeypatch.setattr(sys, "argv", ["backedge", "doctor", "--", VLLM_WORKER, *arguments])
    _, given = parse_all("vllm", arguments)
    assert given.vllm_processing
