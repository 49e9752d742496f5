"""A recording in which one value is not what a recorder writes: one sentence, soon."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from backedge.cli.main import main
from click.testing import CliRunner

from tests.cli.recorded import record_transcript

RECORDING: dict[str, Any] = msgspec.to_builtins(record_transcript("reasoning_call"))
RECORDING["sent"][0].append([[3]])
# Fields with defaults, which a line leaves out.
RECORDING["params"] |= {"n": 1, "min_tokens": 0, "logprobs": 2}
RECORDING |= {"resumed": 0, "dropped": 0}
RECORDING["prompt"]["tail"] = [1, 2]
WRONG = [-1, 200, 10**12, 2**63 - 1, 10**30, 1e308, -1e308]
RIGHT, ERROR = (0, 1), 2


def list_places(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yield the paths of numbers; of each list the first and the last item stand for all."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from list_places(item, (*path, key))
    elif isinstance(value, list):
        for index in sorted({0, len(value) - 1} if value else ()):
            yield from list_places(value[index], (*path, index))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield path


def change(path: tuple[str | int, ...], number: float) -> str:
    recording: Any = copy.deepcopy(RECORDING)
    owner = recording
    for step in path[:-1]:
        owner = owner[step]
    owner[path[-1]] = number
    return json.dumps(recording)


@pytest.mark.parametrize(
    "path", list(list_places(RECORDING)), ids=lambda path: ".".join(map(str, path))
)
def test_a_wrong_number_is_one_sentence(tmp_path: Path, path: tuple[str | int, ...]) -> None:
    file = tmp_path / "file.jsonl"
    for number in WRONG:
        file.write_text(change(path, number) + "\n", encoding="utf-8")
        for command in (["inspect", "--text"], ["replay"]):
            result = CliRunner().invoke(main, [*command, str(file)])
            assert result.exception is None or isinstance(result.exception, SystemExit), number
            if result.exit_code == ERROR:
                assert result.output.count("\n") == 1, result.output
            else:
                assert result.exit_code in RIGHT


def test_the_recording_itself_is_right(tmp_path: Path) -> None:
    file = tmp_path / "file.jsonl"
    file.write_text(json.dumps(RECORDING) + "\n", encoding="utf-8")
    assert CliRunner().invoke(main, ["inspect", "--text", str(file)]).exit_code == 0


def test_a_pipe_in_a_folder_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    result = CliRunner().invoke(main, ["inspect", str(tmp_path)])
    assert (result.exit_code, "no recordings" in result.output) == (ERROR, True)
