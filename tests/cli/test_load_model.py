"""The tokenizer and the parsers of a recorded model."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from backedge.base.errors import SetupError
from backedge.cli.load_model import LoadedModel, ParserChoice, read_tokenizer
from tokenizers import Tokenizer

from tests.cli.replay.recordings import call
from tests.parsers.made_up import ENDLESS_NAME
from tests.support import TINY_MODEL

MODEL = str(TINY_MODEL)
RECORDED = call().model


def test_reads_a_folder() -> None:
    assert isinstance(read_tokenizer(MODEL, asks_hub=False), Tokenizer)


def test_a_folder_without_a_tokenizer_names_the_flag(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="--model"):
        read_tokenizer(str(tmp_path), asks_hub=False)


@pytest.mark.parametrize(
    ("choice", "name"),
    [
        (ParserChoice("", ""), "none none"),
        (ParserChoice(), "linear qwen3+hermes"),
        (ParserChoice(tool_call=""), "linear qwen3"),
        (ParserChoice(reasoning="deepseek_r1"), "linear deepseek_r1+hermes"),
        (ParserChoice(kind="native", engine="vllm"), "native qwen3+hermes"),
        (ParserChoice(kind="auto"), "linear qwen3+hermes"),
        (ParserChoice(ENDLESS_NAME, ENDLESS_NAME, "auto"), "native template+template"),
    ],
)
def test_flags_win_over_what_is_recorded(choice: ParserChoice, name: str) -> None:
    assert LoadedModel(RECORDED, MODEL).build(choice).name == name


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(SetupError, match="nobodys"):
        LoadedModel(RECORDED, MODEL).build(ParserChoice("nobodys", kind="linear"))


def test_the_tokenizer_may_be_elsewhere() -> None:
    gone = msgspec.structs.replace(RECORDED, path="/nowhere")
    assert LoadedModel(gone, MODEL).build(ParserChoice()).name == "linear qwen3+hermes"
    with pytest.raises(SetupError, match="/nowhere"):
        LoadedModel(gone, None)


@pytest.mark.parametrize("given", [None, "a/name"])
def test_a_recording_makes_nobody_ask_a_hub(
    given: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only `--model` does: a stranger may have written the name."""
    transformers = pytest.importorskip("transformers")
    asked: list[object] = []

    def note(*_: object, local_files_only: bool, **__: object) -> object:
        asked.append(local_files_only)
        raise OSError("not here")

    monkeypatch.setattr(transformers.AutoTokenizer, "from_pretrained", note)
    stranger = msgspec.structs.replace(RECORDED, path="a/name")
    with pytest.raises(SetupError, match="a/name"):
        LoadedModel(stranger, given)
    assert asked == [given is None]
