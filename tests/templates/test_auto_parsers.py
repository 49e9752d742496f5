"""`auto` as the name of a parser: one that fits, or a refusal that says what to set."""

from __future__ import annotations

import json
import logging
import shutil
import sys
from pathlib import Path

import pytest
from backedge.base.errors import SetupError
from backedge.parsers.base import ParserNames
from backedge.parsers.format import State
from backedge.parsers.parser_lookup import reasoning_format, tool_format
from backedge.parsers.response_template import name_description
from backedge.templates.auto_parsers import (
    NoParserError,
    name_for_engine,
    resolve_auto,
)
from backedge.testing.transcripts import EXAMPLES
from backedge.tokenization.model_files import find_folder

from tests.parsers.chat_templates import build_template
from tests.parsers.made_up import MADE_UP, write_model

MODEL = str(EXAMPLES / "tiny_model")
BOTH = ParserNames("auto", "auto")


def test_both_are_found_and_the_reason_is_logged(caplog) -> None:
    with caplog.at_level(logging.INFO):
        assert resolve_auto(BOTH, MODEL) == ParserNames("hermes", "qwen3")
    assert "--tool-call-parser auto: hermes, because it reads the calls" in caplog.text
    assert "--reasoning-parser auto: qwen3" in caplog.text


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (ParserNames("auto", None), ParserNames("hermes", None)),
        (ParserNames(None, "auto"), ParserNames(None, "qwen3")),
        (ParserNames("llama3_json", "auto"), ParserNames("llama3_json", "qwen3")),
        # Of a plugin: no format of ours, so the template's own calls say what the model is.
        (ParserNames("my_own", "auto"), ParserNames("my_own", "qwen3")),
    ],
)
def test_only_what_is_auto_is_replaced(names, expected) -> None:
    assert resolve_auto(names, MODEL) == expected


def test_names_are_not_looked_up_unless_asked_for(tmp_path) -> None:
    names = ParserNames("hermes", None)
    assert resolve_auto(names, str(tmp_path / "missing")) is names


def test_a_refusal_lists_the_candidates_and_the_flag(tmp_path) -> None:
    (tmp_path / "chat_template.jinja").write_text(
        build_template("hermes") + "{# it is cut at </think> #}"
    )
    with pytest.raises(NoParserError, match="--reasoning-parser auto finds no parser") as refused:
        resolve_auto(BOTH, str(tmp_path))
    assert "qwen3: has markers" in str(refused.value)
    assert "leave the flag out" in str(refused.value)


def test_a_model_without_files_is_refused(tmp_path) -> None:
    with pytest.raises(NoParserError, match="there is no chat template"):
        resolve_auto(BOTH, str(tmp_path))


def test_the_workers_own_template_counts(tmp_path) -> None:
    given = tmp_path / "given.jinja"
    given.write_text(build_template("qwen3_coder"))
    found = resolve_auto(ParserNames("auto"), MODEL, chat_template=str(given))
    assert found.tool_call == "qwen3_coder"


@pytest.mark.parametrize(
    ("known", "name"),
    [((), "hermes"), (("qwen25", "hermes"), "hermes"), (("qwen25",), "qwen25"), (("x",), "hermes")],
)
def test_the_engines_name_of_a_format(known, name) -> None:
    hermes = tool_format("hermes")
    assert hermes is not None
    assert name_for_engine(hermes, known) == name
    assert resolve_auto(ParserNames("auto"), MODEL, known=lambda _: known).tool_call == name


def test_a_file_stands_for_its_folder(tmp_path) -> None:
    weights = tmp_path / "model.gguf"
    weights.touch()
    assert find_folder(str(weights)) == tmp_path
    assert find_folder(str(tmp_path)) == tmp_path


def test_small_files_are_fetched_from_the_hub(monkeypatch, tmp_path) -> None:
    import huggingface_hub

    asked: dict[str, object] = {}

    def snapshot_download(model, **options):
        asked.update(options, model=model)
        return str(tmp_path)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    assert find_folder("some/model", "main") == tmp_path
    assert (asked["model"], asked["revision"]) == ("some/model", "main")
    assert "safetensors" not in str(asked["allow_patterns"])


def test_a_model_that_cannot_be_fetched_is_named(monkeypatch) -> None:
    import huggingface_hub

    def fail(*_, **__):
        raise OSError("no network\nand more")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fail)
    with pytest.raises(SetupError, match=r"'some/model' is not a folder.*\(no network\)"):
        find_folder("some/model")
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(SetupError, match="huggingface_hub, which downloads models"):
        find_folder("some/model")


DESCRIPTION = {
    "start_anchor": "<|bot|>",
    "fields": {"content": {}, "thinking": {"open": "<|muse|>", "close": "<|hush|>"}},
}


def write_description(folder: Path, description: object) -> str:
    text = json.dumps({"response_template": description})
    (folder / "tokenizer_config.json").write_text(text)
    return str(folder)


def test_a_described_format(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    model = write_description(tmp_path, DESCRIPTION)
    with caplog.at_level("INFO"):
        found = resolve_auto(ParserNames(None, "auto"), model)
    assert "auto: template, because it is the model's `response_template`" in caplog.text
    assert found == resolve_auto(ParserNames(None, "template"), model)
    format_ = reasoning_format(found.reasoning or "")
    assert format_ is not None
    assert "<|muse|>" in format_.states[State.CONTENT]


@pytest.mark.parametrize("name", ["auto", "template"])
def test_a_description_of_calls_reads_all_of_an_answer(tmp_path: Path, name: str) -> None:
    model = write_description(tmp_path, MADE_UP)
    found = resolve_auto(ParserNames(name), model)
    assert found.reasoning == found.tool_call == name_description(MADE_UP)
    found = resolve_auto(ParserNames(name, "qwen3"), model)
    assert found.reasoning == "qwen3"


def test_a_description_that_no_table_holds(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    thinking = {"open_pattern": "<(?=t)t>", "close": "</t>"}
    model = write_description(tmp_path, {"fields": {"content": {}, "thinking": thinking}})
    with caplog.at_level("INFO"):
        found = resolve_auto(ParserNames(None, "auto"), model)
    assert "auto: template, by transformers' own parser: " in caplog.text
    assert found == resolve_auto(ParserNames(None, "template"), model)
    assert reasoning_format(found.reasoning or "") is None


def test_tokens_alone_do_not_overrule_a_description(tmp_path: Path) -> None:
    own = ParserNames(*[name_description(MADE_UP)] * 2)
    assert resolve_auto(BOTH, str(write_model(tmp_path / "model"))) == own


def test_a_known_format_comes_first(tmp_path: Path) -> None:
    for path in Path(MODEL).iterdir():
        shutil.copy(path, tmp_path)
    config = json.loads((tmp_path / "tokenizer_config.json").read_text())
    config["response_template"] = DESCRIPTION
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    assert resolve_auto(BOTH, str(tmp_path)) == ParserNames("hermes", "qwen3")


@pytest.mark.parametrize(
    ("description", "names", "problem"),
    [
        (None, ParserNames("template"), "has no `response_template`"),
        (DESCRIPTION, ParserNames("template"), "describes nothing of it"),
        ({"fields": {"x": {}}}, ParserNames("template"), "describes nothing of it"),
        (DESCRIPTION, ParserNames("auto"), "--tool-call-parser auto finds no parser"),
    ],
)
def test_no_described_format(
    tmp_path: Path, description: object, names: ParserNames, problem: str
) -> None:
    with pytest.raises(SetupError, match=problem):
        resolve_auto(names, write_description(tmp_path, description))
