"""The back end that a worker's flags select decodes there, though the engine has its own."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from backedge.base.errors import SetupError
from backedge.engines.sglang import worker as sglang
from backedge.engines.vllm import worker as vllm
from backedge.tokenization import tokenizer_selection as selections
from backedge.tokenization.detokenizer import DetokenizerOptions, detokenizers
from backedge.tokenization.tokenizer_selection import TokenizerSelection
from backedge.worker import flags
from backedge.worker.decoding import choose_tokenizer, select_other
from tokenizers import Tokenizer

from tests.support import TINY_MODEL
from tests.tokenization.examples import MISTRAL_FILES

TEXT = "Grüße, 世界 😀 one two"


def write_xtok(folder: Path) -> str:
    """Return a tokenizer of bytes in the format that only SGLang reads."""
    regular = [{"bytes": [byte], "token": byte} for byte in range(256)]
    names = ("<|pad|>", "<|separator|>", "<|eos|>")
    special = [
        {"bytes": list(name.encode()), "token": 256 + number} for number, name in enumerate(names)
    ]
    path = folder / "xtok.json"
    path.write_text(
        json.dumps({"regular_tokens": regular, "special_tokens": special, "word_split": "V1"})
    )
    return str(path)


def sentencepiece(folder: Path) -> str:
    """Return a model's folder with a file that only vLLM reads."""
    (file,) = (file for file in MISTRAL_FILES if file.name.endswith(".model.v3"))
    shutil.copy(file, folder / "tokenizer.model.v3")
    (folder / "consolidated.safetensors").touch()  # vLLM looks for it
    (folder / "config.json").write_text(json.dumps({"model_type": "mistral"}))
    return str(folder)


class EngineArgs(SimpleNamespace):
    """vLLM's, without a model."""

    def __getattr__(self, name: str) -> None:
        return None

    def create_model_config(self) -> None:
        return None


def vllm_worker(path: str, settings: flags.WorkerSettings) -> Any:
    engine_args = EngineArgs(model="m", tokenizer=path, trust_remote_code=False)
    config: Any = SimpleNamespace(engine_args=engine_args)
    return vllm.VllmWorker(config, settings)


def sglang_worker(path: str, settings: flags.WorkerSettings) -> Any:
    server_args = SimpleNamespace(
        model_path="m",
        tokenizer_path=path,
        tokenizer_mode="auto",
        trust_remote_code=False,
        revision=None,
    )
    config: Any = SimpleNamespace(server_args=server_args)
    return sglang.SglangWorker(config, settings)


# A worker, the back end of the other engine, and a tokenizer that only this back end reads.
PAIRS = [
    pytest.param(vllm_worker, "sglang", write_xtok, id="sglang on vLLM"),
    pytest.param(sglang_worker, "vllm", sentencepiece, id="vllm on SGLang"),
]


@pytest.mark.parametrize(("make_worker", "backend", "write"), PAIRS)
def test_the_other_engines_back_end_decodes(
    tmp_path: Path, make_worker: Any, backend: Any, write: Any
) -> None:
    path = write(tmp_path)
    settings = flags.WorkerSettings(tokenizer=TokenizerSelection(backend))
    loaded = make_worker(path, settings).load()
    tokenizer = loaded.tokenizer
    token_ids = list(tokenizer.encode(TEXT, add_special_tokens=False))
    feed = detokenizers(tokenizer)(DetokenizerOptions(), []).feed_all
    assert feed(token_ids) == TEXT
    # The pool gets the same by JSON.
    other = json.loads(json.dumps(loaded.pool_arguments["other"]))
    again: Any = choose_tokenizer(other, pytest.fail)
    assert type(again) is type(tokenizer)
    assert list(again.encode(TEXT, add_special_tokens=False)) == token_ids


@pytest.mark.parametrize(("make_worker", "backend", "write"), PAIRS)
def test_which_the_engine_cannot_read(
    tmp_path: Path, make_worker: Any, backend: Any, write: Any
) -> None:
    path = write(tmp_path)
    read = vllm.read_tokenizer if backend == "sglang" else sglang.read_tokenizer
    with pytest.raises(Exception, match=r"."):  # whatever the engine raises
        read(path, trust_remote_code=False)


@pytest.mark.parametrize("make_worker", [vllm_worker, sglang_worker])
def test_tokenizer_json_is_read_without_the_engine(make_worker: Any) -> None:
    settings = flags.WorkerSettings(tokenizer=TokenizerSelection("huggingface"))
    assert isinstance(make_worker(str(TINY_MODEL), settings).load().tokenizer, Tokenizer)


# flags, engine, folder, whether another tokenizer is read
SELECTED = [
    (TokenizerSelection(), "vllm", str(TINY_MODEL), False),
    (TokenizerSelection("vllm"), "vllm", str(TINY_MODEL), False),
    (TokenizerSelection("vllm"), "sglang", str(TINY_MODEL), True),
    (TokenizerSelection("python", "m", "C"), "vllm", str(TINY_MODEL), False),
    (TokenizerSelection("huggingface"), "vllm", str(TINY_MODEL), True),
    (TokenizerSelection("huggingface"), "vllm", "org/model", False),
]


@pytest.mark.parametrize(("selection", "engine", "path", "is_other"), SELECTED)
def test_what_the_flags_select(
    selection: TokenizerSelection, engine: str, path: str, is_other: bool
) -> None:
    other = select_other(selection, engine, path, trust_remote_code=True)
    assert other == ((selection.backend, path, True) if is_other else None)


def test_a_back_end_that_is_not_installed_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selections, "is_installed", lambda backend: False)
    with pytest.raises(SetupError, match="sglang is not installed"):
        select_other(TokenizerSelection("sglang"), "vllm", "m", trust_remote_code=False)
