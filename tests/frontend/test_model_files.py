"""The back ends that a model's files suffice for."""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path

import pytest
from backedge.frontend.model_files import find_files
from backedge.parsers.base import ParserNames
from backedge.tokenization.model_files import ModelFolder, takes_media
from backedge.tokenization.tokenizer_selection import TokenizerFiles

from tests.support import TINY_MODEL

HERMES = ParserNames("hermes", "qwen3")


def find(
    folder: Path, names: ParserNames = HERMES, kind: str = "auto", template: str | None = None
) -> TokenizerFiles:
    flags = argparse.Namespace(chat_template=template, postprocess_parsers=kind)
    return find_files(str(folder), flags, names)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    ignored = shutil.ignore_patterns("*.safetensors")
    return Path(shutil.copytree(TINY_MODEL, tmp_path / "model", ignore=ignored))


# names, kind, whether no engine is needed
PARSERS = [
    (HERMES, "auto", True),
    (HERMES, "linear", True),
    (HERMES, "native", False),
    (ParserNames(), "auto", True),
    (ParserNames("auto", "template"), "auto", True),
    (ParserNames("one_of_the_engines_own"), "auto", False),
    (ParserNames("one_of_the_engines_own"), "linear", False),
]


@pytest.mark.parametrize(("names", "kind", "suffices"), PARSERS)
def test_parsers_of_an_engine_need_it(
    model: Path, names: ParserNames, kind: str, suffices: bool
) -> None:
    assert find(model, names, kind) == (suffices, False)


def test_tokenizer_json_and_a_template_are_enough(model: Path) -> None:
    template = (model / "chat_template.jinja").rename(model / "other.jinja")
    assert not find(model).huggingface
    assert find(model, template=str(template)).huggingface
    assert not find(model, template="{{ messages }}").huggingface, "vLLM takes the text itself"
    (model / "tokenizer.json").unlink()
    assert find(model, template=str(template)) == (False, False)


def test_mistrals_file_counts_where_it_is_the_only_one(model: Path) -> None:
    (model / "tekken.json").touch()
    assert find(model) == (True, False)
    (model / "tokenizer.json").unlink()
    assert find(model) == (False, True)


def test_a_broken_file_has_no_template(model: Path) -> None:
    (model / "chat_template.jinja").unlink()
    (model / "tokenizer_config.json").write_text("{")
    assert not find(model).huggingface


@pytest.mark.parametrize(
    ("config", "reads"),
    [
        ({"model_type": "qwen3"}, False),
        ({"vision_config": {}}, True),
        ({"audio_config": {}}, True),
        ({"image_token_id": 7}, True),
    ],
)
def test_config_json_tells_whether_a_model_reads_media(
    tmp_path: Path, config: dict[str, object], reads: bool
) -> None:
    assert not takes_media(ModelFolder(tmp_path))
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert takes_media(ModelFolder(tmp_path)) is reads
