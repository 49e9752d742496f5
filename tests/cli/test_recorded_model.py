"""The tokenizer and the parsers of a recorded model."""

from __future__ import annotations

from pathlib import Path

import pytest
from backedge.base.errors import SetupError
from backedge.cli.recorded_model import build_parsers, read_tokenizer
from backedge.parsers.base import ParserNames
from backedge.parsers.parser_lookup import Kind
from tokenizers import Tokenizer

from tests.support import TINY_MODEL

MODEL = str(TINY_MODEL)


def test_reads_a_folder() -> None:
    assert isinstance(read_tokenizer(MODEL), Tokenizer)


def test_a_folder_without_a_tokenizer_names_the_flag(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="--model"):
        read_tokenizer(str(tmp_path))


@pytest.mark.parametrize(
    ("names", "kind", "found"),
    [
        (ParserNames(), "auto", "none"),
        (ParserNames("hermes", "qwen3"), "auto", "linear"),
        (ParserNames("hermes", "qwen3"), "native", "native"),
    ],
)
def test_builds_the_parsers(names: ParserNames, kind: Kind, found: str) -> None:
    tokenizer = read_tokenizer(MODEL)
    assert build_parsers(names, kind, MODEL, tokenizer, "vllm")[1] == found


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(SetupError, match="nobodys"):
        build_parsers(ParserNames("nobodys"), "linear", MODEL, read_tokenizer(MODEL))
