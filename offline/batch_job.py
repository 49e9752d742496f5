"""Runs a batch of rows: makes requests for the engine, and writes each result at once.

The engine takes rows when it has room, so a file of any length needs memory only for the rows being
generated. Rows with an image are another kind of request, so a batch with both kinds is read twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from typing import TypeAlias, cast

from ..base.json_types import JsonObject
from .batch_answers import build_answer
from .batch_file import LineSet, has_image
from .batch_rows import RowReader
from .contracts import (
    GenerationResult,
    RequestKind,
    RowError,
    TextGenerationRequest,
    VlmGenerationRequest,
)
from .engine import GenerationEngine
from .rows import RowFailure

ReadRows: TypeAlias = Callable[[], Iterator[tuple[int, JsonObject]]]
"""Returns the rows to generate with their line numbers; may be called twice."""
WriteAnswer: TypeAlias = Callable[[int, bytes, GenerationResult], None]
"""Takes a row's line number, the line of its answer, and its result."""


class BatchJob:
    """Generates rows.

    has_images: whether any row has an image. duplicates: lines whose id an earlier one has.
    raw: as in `build_answer`. stopping: set to True at any time to start no more rows; those
    being generated are finished.
    """

    def __init__(
        self,
        engine: GenerationEngine,
        reader: RowReader,
        rows: ReadRows,
        write: WriteAnswer,
        *,
        has_images: bool,
        duplicates: LineSet | AbstractSet[int] = frozenset(),
        raw: bool = False,
    ) -> None:
        self.stopping = False
        self._engine = engine
        self._reader = reader
        self._rows = rows
        self._write = write
        self._kinds: list[RequestKind] = ["vlm", "text"] if has_images else ["text"]
        self._duplicates = duplicates
        self._raw = raw
        # By position in the engine's batch.
        self._running: dict[int, tuple[int, JsonObject]] = {}

    @property
    def running(self) -> int:
        """Number of rows being generated."""
        return len(self._running)

    def check(self) -> None:
        """Raise `SetupError` if the engine cannot run this kind of batch. Loads no weights."""
        for kind in self._kinds:
            self._start(kind)

    def run(self) -> None:
        """Generate all rows. Raises what the engine and `write` raise."""
        for kind in self._kinds:
            self._running.clear()
            for index, result in self._start(kind):
                line, row = self._running.pop(index)
                self._answer(line, row, result)

    def _start(self, kind: RequestKind) -> Iterator[tuple[int, GenerationResult]]:
        requests, options = self._read(kind), self._reader.options
        if kind == "vlm":
            with_images = cast("Iterator[VlmGenerationRequest]", requests)
            return self._engine.iterate_vlm_batch(with_images, options)
        return self._engine.iterate_text_batch(requests, options)

    def _read(self, kind: RequestKind) -> Iterator[TextGenerationRequest]:
        """Yield the requests of one kind; write an error for rows without a valid request."""
        index = 0
        for line, row in self._rows():
            if self.stopping:
                return
            if has_image(row) is not (kind == "vlm"):
                continue
            try:
                self._check_id(line)
                request = self._reader.read(row, line)
            except RowFailure as failure:
                self._fail(line, row, failure.error)
                continue
            self._running[index] = line, row
            index += 1
            yield request

    def _check_id(self, line: int) -> None:
        if line in self._duplicates:
            message = "the row's id belongs to an earlier row of the file; give each its own."
            raise RowFailure("duplicate_id", message)

    def _fail(self, line: int, row: JsonObject, error: RowError) -> None:
        backend = self._engine.config.backend
        self._answer(line, row, GenerationResult(id="", index=0, backend=backend, error=error))

    def _answer(self, line: int, row: JsonObject, result: GenerationResult) -> None:
        model = self._reader.models[0]
        self._write(line, build_answer(row, line, result, model=model, raw=self._raw), result)
