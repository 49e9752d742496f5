"""What a recorded request is replayed with."""

from __future__ import annotations

import msgspec
import pytest
from backedge.base.errors import SetupError
from backedge.cli.replay.streams import LoadedModel, ParserChoice, check_comparable
from backedge.parsers.base import ParserNames

from tests.cli.replay.recordings import call
from tests.support import TINY_MODEL

MODEL = call().model
CHOICES = {
    ParserChoice(): (ParserNames("hermes", "qwen3"), "linear"),
    ParserChoice(tool_call=""): (ParserNames(None, "qwen3"), "linear"),
    ParserChoice(reasoning="deepseek_r1"): (ParserNames("hermes", "deepseek_r1"), "linear"),
    ParserChoice(kind="native"): (ParserNames("hermes", "qwen3"), "native"),
}


@pytest.mark.parametrize(("choice", "expected"), CHOICES.items())
def test_flags_win_over_what_is_recorded(
    choice: ParserChoice, expected: tuple[ParserNames, str]
) -> None:
    assert (choice.names(MODEL), choice.choose_kind(MODEL)) == expected


def test_the_tokenizer_may_be_elsewhere() -> None:
    gone = msgspec.structs.replace(MODEL, path="/nowhere")
    assert LoadedModel(gone, str(TINY_MODEL)).build(ParserChoice())[1] == "linear qwen3+hermes"
    with pytest.raises(SetupError, match="/nowhere"):
        LoadedModel(gone, None)


def test_a_request_without_tokens_is_refused() -> None:
    failed = msgspec.structs.replace(call(), chunks=[], outcome="failed", error="out of memory")
    with pytest.raises(SetupError, match="out of memory"):
        check_comparable(failed)
    check_comparable(call())
