"""`--beside` in words."""

from __future__ import annotations

import pytest
from backedge.base.errors import SetupError
from backedge.cli.inspect.beside import ParserChoice, read_beside, recorded_choice
from backedge.parsers.base import ParserNames
from backedge.recording.recording import RecordedModel

MODEL = RecordedModel(path="m", parsers=ParserNames("hermes", "qwen3"), kind="linear")


def test_the_recorded_parsers() -> None:
    assert recorded_choice(MODEL) == ParserChoice(ParserNames("hermes", "qwen3"), "linear")


@pytest.mark.parametrize(
    ("text", "names", "kind"),
    [
        ("kind=native", ParserNames("hermes", "qwen3"), "native"),
        ("tool=qwen3_coder", ParserNames("qwen3_coder", "qwen3"), "linear"),
        ("tool=none, reasoning=", ParserNames(), "linear"),
        ("tool=a,reasoning=b,kind=auto", ParserNames("a", "b"), "auto"),
        ("", ParserNames("hermes", "qwen3"), "linear"),
    ],
)
def test_what_is_left_out_is_as_recorded(text: str, names: ParserNames, kind: str) -> None:
    assert read_beside(text, MODEL) == (names, kind)


@pytest.mark.parametrize("text", ["hermes", "tools=hermes", "kind=fast", "tool"])
def test_another_form_is_refused(text: str) -> None:
    with pytest.raises(SetupError, match="--beside"):
        read_beside(text, MODEL)
