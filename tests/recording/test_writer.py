"""The writer's thread: requests never wait for it, and what it cannot write is counted."""

from __future__ import annotations

import logging
import os
import stat
import threading
from pathlib import Path

import pytest
from backedge.base.limits import MAX_WAITING_RECORDINGS
from backedge.recording.flags import RecordSettings
from backedge.recording.recording import Recording
from backedge.recording.recording_file import read_recordings
from backedge.recording.writer import RecordingFolder, RecordingWriter

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
    assert "cannot write there" in caplog.text, "said at the start"
    caplog.clear()
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


OURS = "backedge-worker-20260101T000000-1-0001.jsonl"


def sizes(folder: Path) -> list[int]:
    return [path.stat().st_size for path in sorted(folder.iterdir())]


def test_only_the_owner_can_read(tmp_path: Path) -> None:
    path = tmp_path / "new" / "traces"
    folder = RecordingFolder(str(path), "worker", 1000)
    before = os.umask(0)
    try:
        folder.append(b"a\n")
    finally:
        os.umask(before)
        folder.close()
    (file,) = path.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.stat().st_mode) == 0o700
    assert file.read_bytes() == b"a\n"


def test_all_files_together_stay_within_the_bound(tmp_path: Path) -> None:
    folder = RecordingFolder(str(tmp_path), "worker", 400)
    lines = [b"%060d\n" % number for number in range(40)]
    for line in lines:
        folder.append(line)
        assert sum(sizes(tmp_path)) <= 400
    folder.close()
    assert max(sizes(tmp_path)) <= 100
    kept = b"".join(path.read_bytes() for path in sorted(tmp_path.iterdir()))
    assert kept == b"".join(lines)[-len(kept) :]
    assert len(kept) >= 200


def test_files_of_others_and_links_are_left_alone(tmp_path: Path) -> None:
    traces, outside = tmp_path / "traces", tmp_path / "outside"
    traces.mkdir()
    outside.write_bytes(b"x" * 1000)
    (traces / "notes.txt").write_bytes(b"x" * 1000)
    (traces / OURS).symlink_to(outside)
    folder = RecordingFolder(str(traces), "worker", 100)
    folder.append(b"a\n")
    folder.close()
    assert outside.stat().st_size == 1000
    assert (traces / "notes.txt").exists()
    assert (traces / OURS).is_symlink()


def test_writers_of_one_folder_take_different_names(tmp_path: Path) -> None:
    folders = [RecordingFolder(str(tmp_path), "worker", 1000) for _ in range(5)]
    for folder in folders:
        folder.append(b"a\n")
        folder.close()
    assert len(sizes(tmp_path)) == 5


def test_the_oldest_files_go_first_whoever_wrote_them(tmp_path: Path) -> None:
    for number, name in enumerate((OURS, OURS.replace("worker", "frontend"))):
        (tmp_path / name).write_bytes(b"x" * 50)
        os.utime(tmp_path / name, (number, number))
    folder = RecordingFolder(str(tmp_path), "worker", 100)
    folder.append(b"a\n")
    folder.close()
    assert not (tmp_path / OURS).exists()
    assert (tmp_path / OURS.replace("worker", "frontend")).exists()


def test_a_full_disk_leaves_no_half_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = RecordingFolder(str(tmp_path), "worker", 10_000)
    folder.append(b"first\n")
    write = os.write

    def write_some(file: int, data: bytes) -> int:
        if len(data) < 5:
            raise OSError(28, "No space left on device")
        return write(file, data[:4])

    monkeypatch.setattr(os, "write", write_some)
    with pytest.raises(OSError, match="No space"):
        folder.append(b"second\n")
    monkeypatch.undo()
    folder.append(b"third\n")
    folder.close()
    texts = sorted(path.read_bytes() for path in tmp_path.iterdir())
    assert texts == [b"first\n", b"third\n"]
