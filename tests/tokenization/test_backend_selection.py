"""Which tokenizer a model gets: the frontend's flags, else its worker's, else its engine's."""

import pytest
from backedge.base.errors import SetupError
from backedge.tokenization.tokenizer_selection import (
    BACKENDS,
    TokenizerSelection,
    check_installed,
    is_installed,
    select_tokenizer,
)

NOTHING = TokenizerSelection()
PYTHON = TokenizerSelection("python", "m", "C")
VLLM, SGLANG = TokenizerSelection("vllm"), TokenizerSelection("sglang")


# frontend's flags, worker's flags, engine, installed engines, back end, whose flags
SELECTIONS = [
    (VLLM, PYTHON, "sglang", "vllm sglang", "vllm", VLLM),
    (NOTHING, PYTHON, "sglang", "vllm sglang", "python", PYTHON),
    (PYTHON, SGLANG, "sglang", "", "python", PYTHON),
    (NOTHING, NOTHING, "vllm", "vllm sglang", "vllm", NOTHING),
    (NOTHING, NOTHING, "sglang", "vllm sglang", "sglang", NOTHING),
    (NOTHING, NOTHING, "sglang", "vllm", "huggingface", NOTHING),
    (NOTHING, NOTHING, "another", "vllm sglang", "huggingface", NOTHING),
    (NOTHING, NOTHING, None, "vllm sglang", "vllm", NOTHING),
    (NOTHING, NOTHING, None, "sglang", "sglang", NOTHING),
    (NOTHING, NOTHING, None, "", "huggingface", NOTHING),
]


@pytest.mark.parametrize(("flags", "worker", "engine", "engines", "backend", "named"), SELECTIONS)
def test_the_order_of_precedence(installed, flags, worker, engine, engines, backend, named):
    installed(engines)
    assert select_tokenizer(flags, worker, engine) == (backend, named)


@pytest.mark.parametrize(("flags", "worker"), [(SGLANG, NOTHING), (NOTHING, SGLANG)])
def test_a_back_end_that_is_not_installed_is_refused(installed, flags, worker):
    installed("vllm")
    with pytest.raises(SetupError, match="--tokenizer-backend sglang: sglang is not installed"):
        select_tokenizer(flags, worker, "vllm")


def test_only_the_engines_own_need_a_package(installed):
    installed("")
    assert {name for name in BACKENDS if is_installed(name)} == {"huggingface", "python"}
    check_installed("python")
