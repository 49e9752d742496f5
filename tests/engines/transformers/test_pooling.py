"""Embeddings with transformers: poolings against the model's own states, files that are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from backedge.base.errors import SetupError
from backedge.engines.transformers import offline as hf
from backedge.engines.transformers.pooling import Pooling, read_pooling
from backedge.offline import EmbeddingRequest, GenerationEngine, ModelLoadConfig
from backedge.offline.contracts import EngineDiedError

from tests.support import TINY_MODEL, encode

TEXTS = ["Hi", "A longer text", "x"]
MODULES = "sentence_transformers.models."


def describe(folder: Path, kinds: list[str], pooling: dict[str, Any]) -> None:
    modules = [{"type": MODULES + kind, "path": kind.replace("Transformer", "")} for kind in kinds]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "Pooling").mkdir()
    (folder / "Pooling/config.json").write_text(json.dumps(pooling))


@pytest.mark.parametrize("mode", ["last", "cls", "mean"])
def test_an_embedding_pools_the_states_of_its_own_tokens(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = transformers.AutoModel.from_pretrained(TINY_MODEL, dtype="float32").eval()
    inputs = [encode(text) for text in TEXTS]
    monkeypatch.setattr(hf, "read_pooling", lambda _: Pooling(mode, normalizes=False))
    with GenerationEngine(ModelLoadConfig(TINY_MODEL, dtype="float32")) as engine:
        [result] = engine.embed_batch([EmbeddingRequest(inputs=TEXTS)])
    with torch.inference_mode():
        states = [model(input_ids=torch.tensor([ids])).last_hidden_state[0] for ids in inputs]
    pooled = {
        "last": [each[-1] for each in states],
        "cls": [each[0] for each in states],
        "mean": [each.mean(0) for each in states],
    }
    for vector, expected in zip(result.embeddings, pooled[mode], strict=True):
        torch.testing.assert_close(torch.tensor(vector), expected, rtol=1e-4, atol=1e-5)


def test_a_model_that_generates_embeds_as_vllm_lets_it() -> None:
    config = ModelLoadConfig(TINY_MODEL, dtype="float32", engine_args={"batch_size": 2})
    with GenerationEngine(config) as engine:
        [whole, *alone] = engine.embed_batch(
            [EmbeddingRequest(inputs=TEXTS), *[EmbeddingRequest(inputs=[text]) for text in TEXTS]]
        )
        assert whole.error is None
        for vector, result in zip(whole.embeddings, alone, strict=True):
            assert vector == pytest.approx(result.embeddings[0], abs=1e-6)
            assert sum(value * value for value in vector) == pytest.approx(1)


def test_a_lost_device_ends_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("CUDA error: unspecified launch failure")

    monkeypatch.setattr(Pooling, "pool", fail)
    with GenerationEngine(ModelLoadConfig(TINY_MODEL)) as engine, pytest.raises(EngineDiedError):
        engine.embed_batch([EmbeddingRequest(inputs=TEXTS)])


@pytest.mark.parametrize(
    ("kinds", "pooling", "expected"),
    [
        (["Transformer", "Pooling"], {"pooling_mode_mean_tokens": True}, Pooling("mean", False)),
        (
            ["Transformer", "Pooling", "Normalize"],
            {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False, "include": True},
            Pooling("cls", True),
        ),
        (["Transformer", "Pooling"], {"pooling_mode": "lasttoken"}, Pooling("last", False)),
        (["Transformer", "Pooling", "Dense"], {}, "has Transformer, Pooling, Dense; the back end"),
        (["Transformer", "Pooling"], {"pooling_mode_max_tokens": True}, "pools by max_tokens"),
        (["Transformer", "Pooling"], {}, "pools by nothing"),
    ],
)
def test_files_of_sentence_transformers(
    kinds: list[str], pooling: dict[str, Any], expected: Pooling | str, tmp_path: Path
) -> None:
    describe(tmp_path, kinds, pooling)
    if isinstance(expected, Pooling):
        assert read_pooling(tmp_path) == expected
    else:
        with pytest.raises(SetupError, match=expected):
            read_pooling(tmp_path)


def test_another_model_without_them_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"architectures": ["BertModel"]}')
    with pytest.raises(SetupError, match=r"has no modules\.json"):
        read_pooling(tmp_path)
    assert read_pooling(TINY_MODEL) == Pooling("last", normalizes=True)
