"""The tokenizer flags, of which worker and frontend have the same."""

import argparse
from types import SimpleNamespace
from typing import Any

import pytest
from backedge.base.errors import SetupError
from backedge.base.flags import add_to
from backedge.tokenization import TokenizerProtocol, tokenizer_selection
from backedge.tokenization.tokenizer_selection import (
    FLAGS,
    KEY,
    TokenizerSelection,
    VllmTokenizer,
    create_tokenizer_from_config,
    create_vllm_tokenizer,
    parse_tokenizer_flags,
    read_tokenizer_config,
    set_tokenizer_config,
)

from tests.support import TINY_MODEL

MODULE, CLASS = ["--tokenizer-module", "m"], ["--tokenizer-class", "C"]


def parse(*arguments):
    parser = argparse.ArgumentParser()
    add_to(parser, FLAGS)
    return parse_tokenizer_flags(parser.parse_args(arguments))


@pytest.mark.parametrize(
    ("arguments", "selection"),
    [
        ([], TokenizerSelection()),
        (["--tokenizer-backend", "vllm"], TokenizerSelection("vllm")),
        (
            ["--tokenizer-backend", "python", *MODULE, *CLASS],
            TokenizerSelection("python", "m", "C"),
        ),
    ],
)
def test_the_flags_select_a_tokenizer(arguments, selection):
    assert parse(*arguments) == selection


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--tokenizer-backend", "python", *MODULE], "python needs --tokenizer-class"),
        (["--tokenizer-backend", "python", *CLASS], "python needs --tokenizer-module"),
        (MODULE, "--tokenizer-module 'm' is for --tokenizer-backend python, which is not set"),
        (["--tokenizer-backend", "vllm", *CLASS], "or leave --tokenizer-class out"),
    ],
)
def test_flags_that_contradict_each_other_are_refused(arguments, message):
    with pytest.raises(SetupError, match=message):
        parse(*arguments)


def test_an_unknown_back_end_is_refused(capsys):
    with pytest.raises(SystemExit):
        parse("--tokenizer-backend", "rust")
    assert "invalid choice: 'rust'" in capsys.readouterr().err


def test_a_back_end_of_sglangs_own_is_no_selection():
    arguments = argparse.Namespace(
        tokenizer_backend="fastokens", tokenizer_module=None, tokenizer_class=None
    )
    assert parse_tokenizer_flags(arguments) == TokenizerSelection()


def test_a_configuration_makes_its_tokenizer():
    own = TokenizerSelection.new("examples.my_tokenizer", "MyTokenizer")
    ids = {}
    for config in (own, TokenizerSelection(), TokenizerSelection("huggingface")):
        tokenizer: Any = create_tokenizer_from_config(config, TINY_MODEL)
        found = tokenizer.encode("ab")
        ids[config.tokenizer_backend] = found if isinstance(found, list) else found.ids
    assert ids["python"] == [97, 98]
    assert ids[None] == ids["huggingface"] != ids["python"]


def from_sglang(*given, **more):
    return create_tokenizer_from_config(TokenizerSelection.sglang(), *given, **more)


def test_what_was_set_is_read_from_the_same_configuration():
    llm = pytest.importorskip("dynamo.llm")
    config = llm.ModelRuntimeConfig()
    assert read_tokenizer_config(config).tokenizer_backend is None
    set_tokenizer_config(config, "python", "my_package", "MyTokenizer")
    found = read_tokenizer_config(config)
    assert found == TokenizerSelection.new("my_package", "MyTokenizer")
    assert (found.tokenizer_python_module, found.tokenizer_python_class) == (
        "my_package",
        "MyTokenizer",
    )


@pytest.mark.parametrize("written", ["{", '{"backend": 1}', '{"backend": "none"}', 1])
def test_an_entry_that_is_no_tokenizer_is_named(written):
    for config in ({"runtime_data": {KEY: written}}, SimpleNamespace(runtime_data={KEY: written})):
        with pytest.raises(SetupError, match="tokenizer"):
            read_tokenizer_config(config)


def test_vllms_tokenizer_tokenizes_conversations(monkeypatch):
    asked: list[Any] = []

    def apply(messages, tools, **options):
        asked.append((messages, tools, options["add_generation_prompt"]))
        return (1, 2)

    inner = SimpleNamespace(apply_chat_template=apply, vocab_size=9)
    adapter = SimpleNamespace(read_tokenizer=lambda *_, **__: inner)
    monkeypatch.setattr(tokenizer_selection, "load_engine_module", lambda *names: adapter)
    monkeypatch.setattr(tokenizer_selection, "is_installed", lambda _: True)
    tokenizer = VllmTokenizer(TINY_MODEL)
    assert isinstance(tokenizer, TokenizerProtocol)
    assert tokenizer.tokenize([{"role": "user"}], "tiny", [{"type": "function"}]) == [1, 2]
    assert asked == [([{"role": "user"}], [{"type": "function"}], True)]
    assert tokenizer.vocab_size == 9


@pytest.mark.parametrize("create", [create_vllm_tokenizer, VllmTokenizer, from_sglang])
def test_an_engine_reads_its_own_tokenizer(create, monkeypatch):
    read: list[Any] = []
    adapter = SimpleNamespace(read_tokenizer=lambda path, **more: read.append((path, more)))
    monkeypatch.setattr(tokenizer_selection, "load_engine_module", lambda *names: adapter)
    monkeypatch.setattr(tokenizer_selection, "is_installed", lambda _: True)
    create(TINY_MODEL, trust_remote_code=True)
    assert read == [(str(TINY_MODEL), {"trust_remote_code": True})]
    monkeypatch.setattr(tokenizer_selection, "is_installed", lambda _: False)
    with pytest.raises(SetupError, match="is not installed here"):
        create(TINY_MODEL)
