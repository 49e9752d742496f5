"""A model of random weights under the grammar of a forced call: one format of each kind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("xgrammar")

from backedge.offline import GenerationEngine, ModelLoadConfig

from tests.offline.forced_calls import Model, measure, write_model

# JSON and values in tags, literals of Python, objects with marks around strings.
FORMATS = ("hermes", "qwen3_coder", "pythonic", "gemma4")


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GenerationEngine]:
    model = write_model(tmp_path_factory.mktemp("random") / "model")
    with GenerationEngine(ModelLoadConfig(model, engine_args={"batch_size": 16})) as loaded:
        yield loaded


@pytest.mark.parametrize("name", FORMATS)
def test_each_call_is_read_and_valid(engine: GenerationEngine, name: str) -> None:
    model = Model(Path(engine.config.model))
    [row] = measure(engine, model, [name], schemas=1, tokens=80)
    assert (row.invalid, row.unequal) == ([], 0)
    assert row.valid == row.calls > 0
