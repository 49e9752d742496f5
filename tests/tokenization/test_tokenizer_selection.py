"""The tokenizer flags, of which worker and frontend have the same."""

import argparse

import pytest
from backedge.base.errors import SetupError
from backedge.base.flags import add_to
from backedge.tokenization.tokenizer_selection import (
    FLAGS,
    TokenizerSelection,
    parse_tokenizer_flags,
)

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
