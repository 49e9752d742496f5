"""Which tokenizer a model gets: by flags, else by its worker, its files, its engine."""

import pytest
from backedge.base.errors import SetupError
from backedge.tokenization.tokenizer_selection import (
    BACKENDS,
    MISTRAL,
    TokenizerFiles,
    TokenizerSelection,
    check_installed,
    find_advertised,
    find_engine_backend,
    is_installed,
    select_tokenizer,
)
from msgspec.structs import replace

NOTHING = TokenizerSelection()
PYTHON = TokenizerSelection("python", "m", "C")
VLLM, SGLANG = TokenizerSelection("vllm"), TokenizerSelection("sglang")
BARE, PLAIN, TEKKEN = (
    TokenizerFiles(),
    TokenizerFiles(huggingface=True),
    TokenizerFiles(False, True),
)
LOADED = TokenizerSelection("vllm", mode="mistral", config_format="mistral")


# frontend's flags, worker's flags, engine, installed engines, back end, whose flags; files that
# suffice for no back end without an engine
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
    assert select_tokenizer(flags, worker, engine, BARE) == (backend, named)


@pytest.mark.parametrize("engine", ["vllm", "sglang", None])
def test_without_a_flag_no_engine_prepares_a_model_with_all_files(installed, engine):
    installed("vllm sglang")
    assert select_tokenizer(NOTHING, NOTHING, engine, PLAIN) == ("huggingface", NOTHING)
    assert find_engine_backend(engine) == (engine or "vllm")


# frontend's flags, worker's, whose flags
MISTRALS = [
    (NOTHING, NOTHING, MISTRAL),
    (NOTHING, VLLM, VLLM),
    (VLLM, NOTHING, VLLM),
    (SGLANG, NOTHING, SGLANG),
]


@pytest.mark.parametrize(("flags", "worker", "named"), MISTRALS)
def test_a_model_with_mistrals_files_alone(installed, flags, worker, named):
    installed("vllm sglang mistral_common")
    backend, selection = select_tokenizer(flags, worker, "vllm", TEKKEN)
    assert (backend, selection) == (named.backend, replace(named, mode="mistral"))


@pytest.mark.parametrize("flags", [NOTHING, VLLM])
def test_the_mode_on_the_card_is_followed(installed, flags):
    installed("vllm sglang mistral_common")
    advertised = find_advertised(NOTHING, "vllm", "mistral", "mistral")
    backend, selection = select_tokenizer(flags, advertised, "vllm", PLAIN)
    assert (selection.mode, selection.config_format) == ("mistral", "mistral")
    assert backend == (flags.backend or "python")


# the worker's flags, its engine, the tokenizer's mode, the card
CARDS = [
    (NOTHING, "vllm", None, NOTHING),
    (PYTHON, "vllm", None, PYTHON),
    (NOTHING, "vllm", "mistral", replace(MISTRAL, mode="mistral")),
    (NOTHING, "vllm", "deepseek_v32", TokenizerSelection("vllm", mode="deepseek_v32")),
    (NOTHING, "trtllm", "mistral", replace(MISTRAL, mode="mistral")),
    (VLLM, "sglang", "mistral", TokenizerSelection("vllm", mode="mistral")),
]


@pytest.mark.parametrize(("flags", "engine", "mode", "card"), CARDS)
def test_the_card_says_how_the_worker_has_loaded_the_tokenizer(flags, engine, mode, card):
    assert find_advertised(flags, engine, mode, None) == card


def test_without_mistral_common_the_error_names_package_and_flag(installed):
    installed("vllm sglang")
    with pytest.raises(SetupError, match=r"pip install mistral-common.*--tokenizer-backend"):
        select_tokenizer(NOTHING, NOTHING, "vllm", TEKKEN)


@pytest.mark.parametrize(("flags", "worker"), [(SGLANG, NOTHING), (NOTHING, SGLANG)])
def test_a_back_end_that_is_not_installed_is_refused(installed, flags, worker):
    installed("vllm")
    with pytest.raises(SetupError, match="--tokenizer-backend sglang: sglang is not installed"):
        select_tokenizer(flags, worker, "vllm", BARE)


def test_only_the_engines_own_need_a_package(installed):
    installed("")
    assert {name for name in BACKENDS if is_installed(name)} == {"huggingface", "python"}
    check_installed("python")
