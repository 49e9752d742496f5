"""The tokenizer and the parsers of a recorded model."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from backedge.base.errors import SetupError
from backedge.cli.recorded_model import LoadedModel, ParserChoice, build_parsers, read_tokenizer
from backedge.parsers.base import ParserNames
from backedge.parsers.parser_lookup import Kind
from tokenizers import Tokenizer

from tests.cli.replay.recordings import call
from tests.support import TINY_MODEL

MODEL = str(TINY_MODEL)
RECORDED = call().model
CHOICES = {
    ParserChoice(): (ParserNames("hermes", "qwen3"), "linear"),
    ParserChoice(tool_call=""): (ParserNames(None, "qwen3"), "linear"),
    ParserChoice(reasoning="deepseek_r1"): (ParserNames("hermes", "deepseek_r1"), "linear"),
    ParserChoice(kind="native"): (ParserNames("hermes", "qwen3"), "native"),
}


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


@pytest.mark.parametrize(("choice", "expected"), CHOICES.items())
def test_flags_win_over_what_is_recorded(
    choice: ParserChoice, expected: tuple[ParserNames, str]
) -> None:
    assert (choice.names(RECORDED), choice.choose_kind(RECORDED)) == expected


def test_the_tokenizer_may_be_elsewhere() -> None:
    gone = msgspec.structs.replace(RECORDED, path="/nowhere")
    assert LoadedModel(gone, MODEL).build(ParserChoice())[1] == "linear qwen3+hermes"
    with pytest.raises(SetupError, match="/nowhere"):
        LoadedModel(gone, None)
