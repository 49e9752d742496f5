"""A batch from file to file: both kinds of requests, rows that fail, what runs, stopping."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from backedge.offline.batch_job import BatchJob, RowReader
from backedge.offline.contracts import CapabilityError, GenerationOptions, ModelLoadConfig
from backedge.offline.results import GeneratedChoice, GenerationResult

Indexed = tuple[int, GenerationResult]
ROOM = 3


class Engine:
    """Answers with the kind and the id, the last of `ROOM` rows first."""

    def __init__(self, *kinds: str, in_windows: bool = False) -> None:
        self.config = ModelLoadConfig("m", backend="replay")
        self.in_windows = in_windows
        self.kinds = kinds
        self.answered: list[str] = []

    def iterate_text_batch(self, requests: Iterator[Any], _: GenerationOptions) -> Any:
        return self.start("text", requests)

    def iterate_vlm_batch(self, requests: Iterator[Any], _: GenerationOptions) -> Any:
        return self.start("vlm", requests)

    def start(self, kind: str, requests: Iterator[Any]) -> Iterator[Indexed]:
        if kind not in self.kinds:
            raise CapabilityError("a request", kind, "replay", [])
        return self.generate(kind, requests)

    def generate(self, kind: str, requests: Iterator[Any]) -> Iterator[Indexed]:
        waiting: list[tuple[int, str]] = []
        for index, request in enumerate(requests):
            waiting.append((index, request.id))
            if len(waiting) == ROOM:
                yield self.answer(kind, *waiting.pop())
        while waiting:
            yield self.answer(kind, *waiting.pop())

    def answer(self, kind: str, index: int, request_id: str) -> Indexed:
        self.answered.append(request_id)
        text = f"{kind} {request_id}"
        choice = GeneratedChoice(
            index=0, text=text, raw_text=text, token_ids=[1, 2], finish_reason="stop"
        )
        result = GenerationResult(id=request_id, index=index, backend="replay", choices=[choice])
        return index, result


def prompt(row_id: str, **fields: Any) -> dict[str, Any]:
    return {"prompt": "a", "id": row_id, **fields}


ROWS = [
    prompt("a"),
    prompt("b", image="b.png"),
    prompt("a"),
    prompt("c", image=5),
    prompt("d"),
    prompt("e"),
    prompt("f"),
]


class Job:
    def __init__(self, engine: Any, write: Any = None) -> None:
        self.answers: dict[int, Any] = {}
        self.flushed: list[int] = []
        reader = RowReader(GenerationOptions(), Path("/data"), ["m"])
        self.job = BatchJob(
            engine,
            reader,
            lambda: iter(enumerate(ROWS, 1)),
            write or self.write,
            kinds=["vlm", "text"],
            duplicates={3},
            flush=lambda: self.flushed.append(len(self.answers)),
        )

    def write(self, line: int, answer: bytes, result: GenerationResult) -> None:
        response = json.loads(answer)["response"]
        assert response["id"] == f"backedge-{line}"
        assert (result.error is None) == (response["error"] is None)
        self.answers[line] = response["error"]["code"] if result.error else response["text"]


def test_rows_with_and_without_images_and_rows_that_fail() -> None:
    made = Job(Engine("text", "vlm"))
    made.job.check()
    made.job.run()
    assert made.answers == {
        1: "text a",
        2: "vlm b",
        3: "duplicate_id",
        4: "image",
        5: "text d",
        6: "text e",
        7: "text f",
    }
    assert made.job.running == 0


@pytest.mark.parametrize(
    ("in_windows", "expected"), [(False, [0, 1, 2, 3, 4, 5, 6, 7]), (True, [0, 1, 2, 3, 4, 7])]
)
def test_answers_of_a_window_reach_the_disk_together(in_windows: bool, expected: list[int]) -> None:
    made = Job(Engine("text", "vlm", in_windows=in_windows))
    made.job.run()
    assert sorted(set(made.flushed)) == expected


def test_a_kind_that_the_engine_cannot_do_is_refused_before_any_row() -> None:
    engine = Engine("text")
    made = Job(engine)
    with pytest.raises(CapabilityError):
        made.job.check()
    assert engine.answered == []


def test_no_row_begins_when_it_is_stopping_and_those_that_run_end() -> None:
    engine = Engine("text", "vlm")
    running: list[int] = []

    def stop(*_: object) -> None:
        if "e" in engine.answered and not running:
            running.append(made.job.running)
            made.job.stopping = True

    made = Job(engine, stop)
    made.job.run()
    assert running == [2]
    assert engine.answered == ["b", "e", "d", "a"]
