"""Files of recordings: private, whole lines, bounded, and never outside their folder."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from backedge.recording.folder import RecordingFolder

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
