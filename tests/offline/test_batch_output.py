"""The output of a batch: whole lines, what is done, whose run it is, one writer."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from backedge.base.errors import SetupError
from backedge.offline.batch_file import Extent, InputScan, LineSet, scan_input
from backedge.offline.batch_output import BatchOutput, OutputError, build_id

SETTINGS = {"--model": "m", "--temperature": 0.0, "--stop": []}
PLAIN = {"prompt": "a", "id": "backedge-9", "response": {"id": build_id(1), "text": "b"}}
BATCH = {"id": build_id(2), "custom_id": "a", "response": {"status_code": 200}, "error": None}
FAILED = {"id": build_id(3), "custom_id": "a", "response": {}, "error": {"code": "x"}}
FAILED_PLAIN = {"prompt": "a", "response": {"id": build_id(4), "error": {"code": "x"}}}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "out.jsonl"


@pytest.fixture
def scan(tmp_path: Path) -> InputScan:
    return scan_text(tmp_path, "a")


def scan_text(folder: Path, text: str, begun: Extent | None = None) -> InputScan:
    (folder / "in.jsonl").write_text(f'{{"prompt": "{text}"}}\n')
    return scan_input(folder / "in.jsonl", begun=begun)


def write(path: Path, scan: InputScan, *lines: object, settings=SETTINGS) -> None:
    with BatchOutput(path) as output:
        output.check_settings(settings)
        output.begin(settings, scan)
        for line in lines:
            output.append(json.dumps(line).encode())


def test_lines_are_kept_and_read_again(path: Path, scan: InputScan) -> None:
    write(path, scan, PLAIN, BATCH)
    again = scan_text(path.parent, "a", scan.extent)
    write(path, again, FAILED, FAILED_PLAIN)
    with BatchOutput(path) as output:
        assert [line for line in range(10) if line in output.done] == [1, 2, 3, 4]
        assert output.failed == 2
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert lines == [PLAIN, BATCH, FAILED, FAILED_PLAIN]


@pytest.mark.parametrize("length", [1, 30, None], ids=["1 byte", "30 bytes", "all but its break"])
def test_half_a_last_line_is_dropped(path: Path, scan: InputScan, length: int | None) -> None:
    write(path, scan, PLAIN)
    with path.open("ab") as file:
        file.write(json.dumps(BATCH).encode()[:length])
    with BatchOutput(path) as output:
        assert len(output.done) == 1
    write(path, scan_text(path.parent, "a", scan.extent), FAILED)
    assert [json.loads(line) for line in path.read_text().splitlines()] == [PLAIN, FAILED]


def test_other_settings_are_refused_by_name(path: Path, scan: InputScan) -> None:
    write(path, scan, PLAIN)
    other = {"--model": "m", "--temperature": 0.7, "--stop": [], "--seed": 1}
    with pytest.raises(SetupError) as caught:
        write(path, scan, settings=other)
    assert str(caught.value) == (
        f"--output {path} was started with other settings (--seed null, now 1; --temperature 0.0, "
        "now 0.7); name another output, or use the original settings."
    )


def test_another_input_is_refused(path: Path, scan: InputScan) -> None:
    write(path, scan, PLAIN)
    with pytest.raises(SetupError, match=r"in.jsonl has changed since .* its first 16 bytes"):
        write(path, scan_text(path.parent, "b", scan.extent))


def test_an_output_without_a_line_belongs_to_no_run(path: Path, scan: InputScan) -> None:
    write(path, scan)
    write(path, scan_text(path.parent, "b"), PLAIN, settings={"--model": "other"})
    assert path.read_text().count("\n") == 1


@pytest.mark.parametrize(
    ("content", "record", "message"),
    [
        ("notes", None, "is not empty, but out.jsonl.run, which records"),
        ('{"a": 1}\n', "kept", "line 1 is not an answer of this command"),
        ("notes\n", "kept", "line 1 is not an answer of this command"),
        (
            '{"id": "chatcmpl-1", "response": {}}\n',
            "kept",
            "line 1 is not an answer of this command",
        ),
        ("", "{", "out.jsonl.run cannot be read"),
        ("", '{"version": 1}', "out.jsonl.run cannot be read"),
    ],
)
def test_foreign_files_are_refused_and_left_as_they_are(
    path: Path, scan: InputScan, content: str, record: str | None, message: str
) -> None:
    beside = path.with_name("out.jsonl.run")
    write(path, scan)
    path.write_text(content)
    if record is None:
        beside.unlink()
    elif record != "kept":
        beside.write_text(record)
    with pytest.raises(SetupError, match=message):
        BatchOutput(path)
    assert path.read_text() == content


def test_a_record_of_another_version_is_refused(path: Path, scan: InputScan) -> None:
    write(path, scan, PLAIN)
    beside = path.with_name("out.jsonl.run")
    beside.write_text(beside.read_text().replace('"version": 1', '"version": 2'))
    with pytest.raises(SetupError, match="of another version"):
        write(path, scan)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: path.mkdir(), "cannot be written: Is a directory"),
        (os.mkfifo, "is not a regular file"),
    ],
    ids=["a folder", "a pipe"],
)
def test_what_is_no_file_is_refused(path: Path, make, message: str) -> None:
    make(path)
    with pytest.raises(SetupError, match=f"--output {path} {message}"):
        BatchOutput(path)


def test_a_folder_that_is_missing_is_named(tmp_path: Path, scan: InputScan) -> None:
    path = tmp_path / "none" / "out.jsonl"
    with pytest.raises(SetupError, match=f"--output {path} cannot be written: No such file"):
        write(path, scan)


def test_another_writer_is_refused(path: Path, scan: InputScan) -> None:
    program = "import sys\nfrom pathlib import Path\nfrom backedge.offline.batch_output import *\n"
    program += "BatchOutput(Path(sys.argv[1]))\n"
    command = [sys.executable, "-c", program, str(path)]
    with BatchOutput(path) as output:
        output.begin(SETTINGS, scan)
        beside = subprocess.run(command, capture_output=True, text=True, check=False)
        assert f"--output {path} is being written by another process" in beside.stderr
    subprocess.run(command, check=True)


def test_a_forked_process_does_not_keep_the_lock(path: Path, scan: InputScan) -> None:
    """As an engine's process does that outlives a killed run."""
    output = BatchOutput(path)
    output.begin(SETTINGS, scan)
    folder = Path("/proc/self/fd")
    opened = [int(file.name) for file in folder.iterdir() if file.resolve() == path.resolve()]
    child = subprocess.Popen(["sleep", "60"], pass_fds=opened)
    try:
        output.close()
        assert opened
        program = "import sys, fcntl\nfcntl.lockf(open(sys.argv[1], 'a'), 6)"
        subprocess.run([sys.executable, "-c", program, str(path)], check=True)
    finally:
        child.kill()
        child.wait()


def test_no_part_of_a_line_stays_on_a_full_disk(
    path: Path, scan: InputScan, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, left = os.write, [7]

    def write_little(descriptor: int, data: bytes) -> int:
        if not left[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = real(descriptor, bytes(data[: left[0]]))
        left[0] -= written
        return written

    with BatchOutput(path) as output:
        output.begin(SETTINGS, scan)
        output.append(json.dumps(PLAIN).encode())
        monkeypatch.setattr(os, "write", write_little)
        with pytest.raises(OutputError, match=r"No space left on device.* lines are whole"):
            output.append(json.dumps(BATCH).encode())
        monkeypatch.setattr(os, "write", real)
        output.append(json.dumps(FAILED).encode())
    assert [json.loads(line) for line in path.read_text().splitlines()] == [PLAIN, FAILED]


def test_a_closed_output_takes_no_line(path: Path) -> None:
    output = BatchOutput(path)
    output.close()
    with pytest.raises(OutputError, match="is closed"):
        output.append(b"{}")
    assert output.done is not None
    assert isinstance(output.done, LineSet)
