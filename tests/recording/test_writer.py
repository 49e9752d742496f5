"""The writer's thread: requests never wait for it, and what it cannot write is counted."""

from __future__ import annotations

import logging
import threading
from pathlib import Path

import pytest
from backedge.base.limits import MAX_WAITING_RECORDINGS
from backedge.recording.flags import RecordSettings
from backedge.recording.recording import Recording
from backedge.recording.recording_file import read_recordings
from backedge.recording.writer import RecordingWriter

from tests.recording.test_recording import RECORDING


def build() -> Recording:
    return RECORDING


def make_writer(folder: Path, limit_bytes: int = 1 << 30) -> RecordingWriter:
    settings = RecordSettings(folder=str(folder), limit_bytes=limit_bytes)
    return RecordingWriter(settings, "worker")


def counts(writer: RecordingWriter) -> dict[str, int]:
    return {result: number for result, number in writer.counts.results.items() if number}


def test_what_is_submitted_is_written(tmp_path: Path) -> None:
    writer = make_writer(tmp_path)
    assert all(writer.submit(build) for _ in range(3))
    writer.close()
    (file,) = tmp_path.iterdir()
    assert list(read_recordings(file)) == [RECORDING] * 3
    assert counts(writer) == {"written": 3}
    assert writer.counts.written_bytes == file.stat().st_size


def test_a_full_queue_drops_and_counts(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    writer, go_on, busy = make_writer(tmp_path), threading.Event(), threading.Event()

    def wait() -> Recording:
        busy.set()
        go_on.wait()
        return RECORDING

    assert writer.submit(wait)
    busy.wait()
    taken = [writer.submit(build) for _ in range(MAX_WAITING_RECORDINGS + 5)]
    assert taken == [True] * MAX_WAITING_RECORDINGS + [False] * 5
    go_on.set()
    writer.close()
    assert counts(writer) == {"written": MAX_WAITING_RECORDINGS + 1, "overload": 5}
    assert len(caplog.records) == 1, "one warning, then it is counted only"


def test_a_folder_that_cannot_be_written_costs_recordings_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_bytes(b"")
    writer = make_writer(tmp_path / "file" / "traces")
    assert writer.submit(build)
    assert writer.submit(build)
    writer.close()
    assert counts(writer) == {"unwritable": 2}
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "Not a directory" in caplog.text


def test_a_recording_that_cannot_be_made_tells_no_words(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> Recording:
        raise ValueError("what the user has said")

    writer = make_writer(tmp_path)
    writer.submit(fail)
    writer.submit(build)
    writer.close()
    assert counts(writer) == {"failed": 1, "written": 1}
    assert "ValueError" in caplog.text
    assert "user" not in caplog.text


def test_a_line_that_no_file_holds_is_not_written(tmp_path: Path) -> None:
    writer = make_writer(tmp_path, limit_bytes=100)
    writer.submit(build)
    writer.close()
    assert counts(writer) == {"too_long": 1}
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_created_before_the_first_recording(tmp_path: Path) -> None:
    before = threading.active_count()
    make_writer(tmp_path / "traces").close()
    assert (threading.active_count(), list(tmp_path.iterdir())) == (before, [])


def test_a_folder_that_comes_back_is_used_again(tmp_path: Path) -> None:
    blocked = tmp_path / "traces"
    blocked.write_bytes(b"")
    writer = make_writer(blocked)
    writer.submit(build)
    writer.close()
    blocked.unlink()
    writer.submit(build)
    writer.close()
    assert counts(writer) == {"unwritable": 1, "written": 1}
