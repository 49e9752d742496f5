"""The stage for Ray Data: alone, and in a local Ray with two actors."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from backedge.base.errors import SetupError
from backedge.offline.contracts import GenerationOptions, ModelLoadConfig
from backedge.offline.ray import LINES_PER_BLOCK, GenerationStage, read_lines, write_answers

from tests.offline.batch_files import ALL, batch_row, run_command, write_rows
from tests.support import TINY_MODEL

LOAD = ModelLoadConfig(str(TINY_MODEL), backend="replay")
OPTIONS = GenerationOptions(message=True, tool_call_parser="hermes", reasoning_parser="qwen3")
BATCH_SIZE = 50


def test_the_stage_answers_a_batch() -> None:
    rows = [batch_row(number, ALL[number]) for number in range(3)]
    rows[1]["body"]["model"] = "none"
    batch = {"line": [4, 9, 2], "text": [json.dumps(row) for row in rows]}
    stage = GenerationStage(LOAD, OPTIONS, models=["tiny"])
    made = stage({**batch, "duplicate": [False, False, True]})
    answers = {
        line: json.loads(str(text)) for line, text in zip(made["line"], made["answer"], strict=True)
    }
    assert answers[4]["response"]["body"]["model"] == "tiny"
    assert answers[9]["error"]["message"] == "`body.model` must be tiny, not 'none'."
    assert answers[2]["error"]["code"] == "duplicate_id"
    assert dict(zip(made["line"], made["failed"], strict=True)) == {4: False, 9: True, 2: True}
    again = stage(batch)
    assert not again["failed"][again["line"].index(2)]


def test_a_dataset_without_the_columns_is_refused() -> None:
    stage = GenerationStage(LOAD, OPTIONS)
    with pytest.raises(SetupError, match="has no column 'line', only item, text; create it with"):
        stage({"item": [1], "text": ["{}"]})


def test_bad_options_are_refused_before_ray_starts_an_actor() -> None:
    with pytest.raises(SetupError, match="did you mean 'tokens_per_step'"):
        GenerationStage(
            ModelLoadConfig(str(TINY_MODEL), backend="replay", engine_args={"token_per_step": 1})
        )


@pytest.fixture(scope="module")
def local_ray() -> Iterator[Any]:
    ray = pytest.importorskip("ray", reason="Ray is not installed; pip install '.[ray]'")
    pytest.importorskip("ray.data")
    ray.init(num_cpus=3, include_dashboard=False, logging_level="ERROR")
    ray.data.DataContext.get_current().enable_progress_bars = False
    yield ray
    ray.shutdown()


def test_two_actors_give_the_same_file_as_one_process(local_ray: Any, tmp_path: Path) -> None:
    rows = LINES_PER_BLOCK + 90
    source = write_rows(tmp_path / "in.jsonl", rows)
    with source.open("a") as file:
        file.write(json.dumps(batch_row(3, ALL[0])) + "\n")
    alone, together = tmp_path / "alone.jsonl", tmp_path / "together.jsonl"
    assert run_command(source, alone, "--served-model-name", "tiny").returncode == 3
    answers = read_lines(source).map_batches(
        GenerationStage,
        fn_constructor_args=(LOAD, OPTIONS),
        fn_constructor_kwargs={"models": ["tiny"]},
        batch_size=BATCH_SIZE,
        compute=local_ray.data.ActorPoolStrategy(size=2),
    )
    assert write_answers(answers, together) == 1
    lines = together.read_bytes().splitlines()
    assert len(lines) == rows + 1
    assert sorted(lines) == sorted(alone.read_bytes().splitlines())
    with pytest.raises(FileExistsError):
        write_answers(answers, together)
