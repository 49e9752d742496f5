"""Native parsers are loaded in one place, which checks their seams first."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from backedge.base.engines import has_engine, load_native_parsers
from backedge.base.errors import SetupError
from backedge.cli.main import main
from backedge.parsers.api import Engine, native_parsers, stream_parser
from backedge.parsers.base import ParserNames
from click.testing import CliRunner

from tests.cli.recorded import record_transcript, write

NAMES = ParserNames(reasoning="qwen3")
# A class that each engine's parsers need, and what does not work without it.
GONE: dict[Engine, str] = {
    "vllm": "vllm.parser:ParserManager",
    "sglang": "sglang.srt.parser.reasoning_parser:ReasoningParser",
    "trtllm": "tensorrt_llm.llmapi.reasoning_parser:ReasoningParserFactory",
}
INSTALLED = [engine for engine in GONE if has_engine(engine)]
SENTENCE = r"has no \w+, without which there are no native parsers \(found ai-dynamo 1"


@pytest.fixture(params=INSTALLED)
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    """Another version of an engine, which lacks a class."""
    engine: Engine = request.param
    load_native_parsers.cache_clear()
    module, _, name = GONE[engine].partition(":")
    monkeypatch.delattr(importlib.import_module(module), name)
    yield engine
    load_native_parsers.cache_clear()


def stream(engine: Engine) -> None:
    stream_parser(reasoning_parser="qwen3", kind="native", engine=engine, tokenizer=object())


ENTRIES: dict[str, Callable[[Engine], object]] = {
    "stream_parser": stream,
    "workers and batches": lambda engine: native_parsers(engine, object(), NAMES),
    "names of parsers": load_native_parsers,
}


@pytest.mark.parametrize("entry", ENTRIES)
def test_a_seam_that_does_not_hold_is_said_in_one_sentence(entry: str, engine: Engine) -> None:
    with pytest.raises(SetupError, match=SENTENCE):
        ENTRIES[entry](engine)


def test_known_names_of_an_engine_whose_import_is_late() -> None:
    assert load_native_parsers("trtllm").known_names("--reasoning-parser")


@pytest.mark.parametrize("command", ["inspect", "replay"])
def test_a_command_says_it(command: str, engine: Engine, tmp_path: Path) -> None:
    recording = record_transcript("reasoning_call")
    model = msgspec.structs.replace(recording.model, kind="native", engine=engine)
    file = write(tmp_path / "one.jsonl", msgspec.structs.replace(recording, model=model))
    result = CliRunner().invoke(main, [command, "--json", str(file)])
    said = " ".join(result.output.split())
    assert "without which there are no native parsers (found ai-dynamo 1" in said
    assert result.exception is None or isinstance(result.exception, SystemExit)
