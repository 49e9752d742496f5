"""A batch from file to file: what the output lacks is generated, and each result written at once.

Rows go to the engine as it has room for them, so a file of any length needs the memory of the rows
that are being generated. Rows with an image are another kind of request, so a file that has both
is read once for each kind.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from ..parsers.json_types import JsonObject
from .batch_answers import build_answer
from .batch_file import InputScan, has_image, read_row, read_rows
from .batch_output import BatchOutput
from .batch_rows import RowReader
from .contracts import (
    GenerationOptions,
    GenerationResult,
    RequestKind,
    RowError,
    TextGenerationRequest,
    VlmGenerationRequest,
)
from .engine import GenerationEngine
from .progress import Progress
from .rows import RowFailure


class BatchJob:
    """Generates the rows of an input that have no result in the output yet.

    raw: as in `build_answer`. stopping: set it to True from anywhere, and no more rows begin;
    those that are being generated end as usual.
    """

    def __init__(
        self,
        engine: GenerationEngine,
        scan: InputScan,
        output: BatchOutput,
        reader: RowReader,
        progress: Progress,
        *,
        raw: bool = False,
    ) -> None:
        self.stopping = False
        self._engine = engine
        self._scan = scan
        self._output = output
        self._reader = reader
        self._progress = progress
        self._raw = raw
        # By their position in the engine's batch.
        self._running: dict[int, tuple[int, JsonObject]] = {}

    @property
    def running(self) -> int:
        """The number of rows that are being generated."""
        return len(self._running)

    def run(self) -> None:
        """Generate all rows. Raises as the engine and the output do."""
        for kind in self._kinds():
            self._running.clear()
            for index, result in self._start(kind):
                line, row = self._running.pop(index)
                self._write(line, row, result)

    def check(self) -> None:
        """Raise `SetupError` if the engine cannot do this kind of batch. No weights load."""
        for kind in self._kinds():
            self._start(kind)

    def _kinds(self) -> list[RequestKind]:
        """Return the kinds of requests in the input; text, if there are perhaps none."""
        return ["text"] if self._scan.first_image is None else ["vlm", "text"]

    def _start(self, kind: RequestKind) -> Iterator[tuple[int, GenerationResult]]:
        options: GenerationOptions = self._reader.options
        if kind == "vlm":
            requests = cast("Iterator[VlmGenerationRequest]", self._read(kind))
            return self._engine.iterate_vlm_batch(requests, options)
        return self._engine.iterate_text_batch(self._read(kind), options)

    def _read(self, kind: RequestKind) -> Iterator[TextGenerationRequest]:
        """Yield the requests of a kind that are to be generated; write those that cannot be."""
        index = 0
        for line in read_rows(self._scan, self._output.done):
            if self.stopping:
                return
            row = read_row(self._scan.path, line)
            if has_image(row) is not (kind == "vlm"):
                continue
            try:
                self._check_id(line.number)
                request = self._reader.read(row, line.number)
            except RowFailure as failure:
                self._fail(line.number, row, failure.error)
                continue
            self._running[index] = line.number, row
            index += 1
            yield request

    def _check_id(self, line: int) -> None:
        if line in self._scan.duplicates:
            message = "the row's id belongs to an earlier row of the file; give each its own."
            raise RowFailure("duplicate_id", message)

    def _fail(self, line: int, row: JsonObject, error: RowError) -> None:
        backend = self._engine.config.backend
        self._write(line, row, GenerationResult(id="", index=0, backend=backend, error=error))

    def _write(self, line: int, row: JsonObject, result: GenerationResult) -> None:
        model = self._reader.models[0]
        self._output.append(build_answer(row, line, result, model=model, raw=self._raw))
        self._progress.add(result.completion_tokens, failed=result.error is not None)
