"""Files of recordings: read line by line, and what is wrong with one is said."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from backedge.recording.recording import VERSION
from backedge.recording.recording_file import RecordingFileError, read_all, read_recordings

from tests.recording.test_recording import RECORDING

LINE = msgspec.json.encode(RECORDING) + b"\n"


def read(tmp_path: Path, content: bytes) -> list[object]:
    path = tmp_path / "recording.jsonl"
    path.write_bytes(content)
    return list(read_recordings(path))


@pytest.mark.parametrize(
    ("content", "count"),
    [
        (b"", 0),
        (LINE, 1),
        (LINE * 3, 3),
        (LINE + b"\n" + LINE, 2),
        (LINE.strip(), 1),
        (LINE + LINE[: len(LINE) // 2], 1),
    ],
    ids=["empty", "one", "three", "a blank line", "no end of line", "cut in the last line"],
)
def test_reads_what_is_there(tmp_path: Path, content: bytes, count: int) -> None:
    assert read(tmp_path, content) == [RECORDING] * count


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (LINE + b"{}\n", "line 2"),
        (b"not JSON\n", "line 1"),
        (LINE[: len(LINE) // 2] + b"\n" + LINE, "line 1"),
        (b"[" * 100_000 + b"\n", "line 1"),
        (LINE.replace(b"{", b'{"version": 99, ', 1), f"up to {VERSION}"),
        (b'{"version": 99, "source": "elsewhere"}\n', "version 99"),
    ],
    ids=["no recording", "no JSON", "cut in the midst", "nested", "newer", "newer, other fields"],
)
def test_says_what_cannot_be_read(tmp_path: Path, content: bytes, says: str) -> None:
    with pytest.raises(RecordingFileError, match=says):
        read(tmp_path, content)


def test_a_line_that_was_cut_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "backedge-worker-1.jsonl"
    path.write_bytes(LINE + LINE[: len(LINE) // 2])
    said: list[str] = []
    assert list(read_all([tmp_path], said.append)) == [RECORDING]
    [line] = said
    assert line.startswith(f"{path} ends within line 2: its process was killed, or is still")
    assert line.endswith("Lines left out in this file: 1.")
    path.write_bytes(LINE[: len(LINE) // 2])
    with pytest.raises(RecordingFileError, match="ends within line 1"):
        list(read_all([path], said.append))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(RecordingFileError, match=r"none\.jsonl"):
        list(read_recordings(tmp_path / "none.jsonl"))
