"""A batch as a pipeline of Ray Data, with the engine as a stage, one actor per GPU.

    lines = read_lines("in.jsonl")
    answers = lines.map_batches(
        GenerationStage,
        fn_constructor_args=(ModelLoadConfig(model, backend="vllm"), GenerationOptions()),
        batch_size=512,
        compute=ray.data.ActorPoolStrategy(size=2),
        num_gpus=1,
    )
    write_answers(answers, "out.jsonl")

The file has the same lines as with `python -m backedge.offline`, ordered by completion. Ray does
the scheduling. Needs `pip install '.[ray]'`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..base.errors import SetupError
from ..base.json_types import JsonObject
from .batch_file import (
    WHOLE,
    Block,
    Line,
    Shard,
    has_image,
    list_kinds,
    read_block,
    read_row,
    scan_input,
    split_lines,
)
from .batch_job import BatchJob, RowReader
from .contracts import GenerationOptions, ModelLoadConfig
from .engine import GenerationEngine
from .plugins import Plugin
from .results import GenerationResult

# Number of input lines in one block of a dataset.
LINES_PER_BLOCK = 512
COLUMNS = ("line", "text")


class GenerationStage:
    """Answers rows; a class for `map_batches`, constructed once per actor.

    load, options, plugins: as for `GenerationEngine`. models: the names that rows may use for
        the model in their body; the first one appears in the answers. folder: base of relative
        image paths. raw: whether answers have `raw_text` and `token_ids`.
    """

    def __init__(
        self,
        load: ModelLoadConfig,
        options: GenerationOptions | None = None,
        plugins: Sequence[Plugin] = (),
        *,
        models: Sequence[str] = (),
        folder: str = ".",
        raw: bool = False,
    ) -> None:
        self._engine = GenerationEngine(load, plugins)
        names = models or [str(load.model)]
        self._reader = RowReader(options or GenerationOptions(), Path(folder), names, load.lora)
        self._raw = raw

    def __call__(self, batch: Mapping[str, Any]) -> dict[str, list[object]]:
        """Return the answers of rows, in order of completion.

        batch: columns `line`, numbers that are unique in the dataset, and `text`, JSON objects;
            optionally `duplicate`, whether the row's id belongs to an earlier line.
        The result has the columns `line`, `answer` with JSON objects, and `failed`.
        """
        rows = self._read(batch)
        duplicates = batch.get("duplicate", [False] * len(rows))
        found: dict[str, list[object]] = {"line": [], "answer": [], "failed": []}

        def write(line: int, answer: bytes, result: GenerationResult) -> None:
            found["line"].append(line)
            found["answer"].append(answer.decode())
            found["failed"].append(result.error is not None)

        BatchJob(
            self._engine,
            self._reader,
            lambda: iter(rows),
            write,
            kinds=list_kinds(has_images=any(has_image(row) for _, row in rows)),
            duplicates={line for (line, _), again in zip(rows, duplicates, strict=True) if again},
            raw=self._raw,
        ).run()
        return found

    def __del__(self) -> None:
        """Free the engine's processes when Ray ends the actor."""
        if (engine := getattr(self, "_engine", None)) is not None:
            engine.close()

    def _read(self, batch: Mapping[str, Any]) -> list[tuple[int, JsonObject]]:
        for name in COLUMNS:
            if name not in batch:
                raise SetupError(
                    f"the dataset has no column {name!r}, only {', '.join(batch)}; create it with "
                    "read_lines, or give it the columns `line` and `text`."
                )
        path = Path("the dataset")
        return [
            (int(line), read_row(path, Line(int(line), str(text).encode())))
            for line, text in zip(batch["line"], batch["text"], strict=True)
        ]


def read_lines(path: str | Path, shard: Shard = WHOLE) -> Any:
    """Return the rows of an input as a `ray.data.Dataset`, for `GenerationStage`.

    path: of a file that all machines of the cluster see at this path; it is read once here
        and checked as in `scan_input`.
    """
    import ray.data

    path = Path(path).resolve()
    scan = scan_input(path, shard)

    def describe(block: Block) -> JsonObject:
        numbers = range(block.first, block.first + LINES_PER_BLOCK)
        duplicates = [number for number in numbers if number in scan.duplicates]
        return {**block._asdict(), "duplicates": duplicates}

    def read(item: JsonObject) -> list[JsonObject]:
        block = Block(item["first"], item["start"], item["end"])
        return [
            {
                "line": line.number,
                "text": line.text.decode(),
                "duplicate": line.number in item["duplicates"],
            }
            for line in read_block(path, block)
            if shard.has(line.number)
        ]

    blocks = [describe(block) for block in split_lines(scan, LINES_PER_BLOCK)]
    return ray.data.from_items(blocks).flat_map(read)


def write_answers(answers: Any, path: str | Path) -> int:
    """Write the answers of a dataset as lines; return how many rows failed.

    answers: what `map_batches(GenerationStage)` returned. path: of a file that does not exist.
    Raises `FileExistsError`.
    """
    failed = 0
    with Path(path).open("x", encoding="utf-8") as file:
        for row in answers.iter_rows():
            file.write(f"{row['answer']}\n")
            failed += bool(row["failed"])
    return failed
