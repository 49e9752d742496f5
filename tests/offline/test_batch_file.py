"""The input of a batch: what is a row, what is refused and where, shards, added lines."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from backedge.base.errors import SetupError
from backedge.offline import batch_file
from backedge.offline.batch_file import (
    Block,
    InputError,
    LineSet,
    Shard,
    has_image,
    read_block,
    read_id,
    read_row,
    read_rows,
    scan_input,
    split_lines,
)
from hypothesis import given
from hypothesis import strategies as st

PROMPT = b'{"prompt": "a"}\n'
BODY = b'{"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": {}}\n'


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "in.jsonl"


def numbers(path: Path, shard: Shard = batch_file.WHOLE, done: LineSet | None = None) -> list[int]:
    return [line.number for line in read_rows(scan_input(path, shard), done or LineSet())]


def test_lines_of_all_forms_are_rows(path: Path) -> None:
    path.write_bytes(b"\xef\xbb\xbf" + PROMPT + b'\r\n\n  {"messages": [], "id": 7}\r\n' + BODY)
    scan = scan_input(path)
    lines = list(read_rows(scan, LineSet()))
    assert scan.rows == 3
    assert scan.extent.size == path.stat().st_size
    assert [line.number for line in lines] == [1, 4, 5]
    ids = [read_id(read_row(path, line), line.number) for line in lines]
    assert ids == ["line-1", "7", "a"]


@pytest.mark.parametrize(
    ("text", "line", "column", "reason"),
    [
        (PROMPT + b'{"prompt": "a",', 2, 16, "Expecting property name"),
        (PROMPT + b'{"prompt": tru}', 2, 12, "Expecting value"),
        ('{"prompt": "ä日", "n": tru}'.encode(), 1, 23, "Expecting value"),
        (b'{"prompt": "a"} {}', 1, 17, "Extra data"),
        (b'{"prompt": "a\xff"}', 1, 14, "byte 0xff is not UTF-8"),
        (b'{"prompt": "\\ud800 and more"}', 1, 19, "surrogate"),
        (b'{"prompt": 1e999}', 1, 1, "out of range"),
        (b'["prompt"]', 1, 1, "Expected `object`, got `array`"),
        (b'{"prompt": ' + b"[" * 10_000, 1, 1, "nested more than 512 levels"),
        (b'{"text": "a"}', 1, 1, "neither `body` nor `messages` nor `prompt`"),
        (b'{"body": {}}', 1, 1, "`custom_id` that is a string"),
        (b'{"body": {}, "custom_id": 7}', 1, 1, "`custom_id` that is a string"),
        (b'{"prompt": "a", "response": "b"}', 1, 1, "a field `response`"),
        (b"\x1f\x8b\x08\x00", 1, 2, "save the file as UTF-8"),
    ],
)
def test_a_line_that_is_no_row_is_named_with_its_column(
    path: Path, text: bytes, line: int, column: int, reason: str
) -> None:
    path.write_bytes(text)
    with pytest.raises(InputError, match=f"line {line}, column {column}: .*{reason}") as caught:
        scan_input(path)
    assert (caught.value.line, caught.value.column) == (line, column)
    assert str(caught.value).startswith(f"--input {path}")


def test_a_line_has_a_bound(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_file, "MAX_BATCH_LINE", len(PROMPT))
    path.write_bytes(PROMPT * 2)
    assert scan_input(path).rows == 2
    path.write_bytes(PROMPT + b" " + PROMPT)
    with pytest.raises(InputError, match="line 2, column 1: the line has more than 16 bytes"):
        scan_input(path)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: None, "cannot be read: No such file"),
        (lambda path: path.mkdir(), "is not a regular file"),
        (os.mkfifo, "is not a regular file"),
        (lambda path: path.write_bytes(b"\n \n"), "has no rows"),
    ],
    ids=["missing", "a folder", "a pipe", "blank"],
)
def test_a_file_that_is_no_input_is_refused(path: Path, make, message: str) -> None:
    make(path)
    with pytest.raises(SetupError, match=f"--input {path} {message}"):
        scan_input(path)


def test_ids_that_come_twice(path: Path) -> None:
    rows: list[dict[str, object]] = [
        {"id": "a"},
        {"custom_id": "b", "id": "a"},
        {"id": "a"},
        {},
        {"id": "line-4"},
        {"id": 1},
    ]
    path.write_text("".join(json.dumps(row | {"prompt": ""}) + "\n" for row in rows))
    duplicates = scan_input(path, Shard(2, 2)).duplicates
    assert [number for number in range(10) if number in duplicates] == [3, 5]


@given(st.lists(st.booleans(), min_size=1), st.integers(1, 9))
def test_every_row_is_in_one_shard(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bool], count: int
) -> None:
    path = tmp_path_factory.mktemp("shards") / "in.jsonl"
    path.write_bytes(PROMPT + b"".join(PROMPT if row else b"\n" for row in lines))
    shards = [Shard(number, count) for number in range(1, count + 1)]
    found = [number for shard in shards for number in numbers(path, shard)]
    assert sorted(found) == numbers(path)
    assert [scan_input(path, shard).rows for shard in shards] == [
        len(numbers(path, shard)) for shard in shards
    ]


def test_rows_that_are_done_are_left_out(path: Path) -> None:
    path.write_bytes(PROMPT * 5)
    done = LineSet()
    for line in (2, 5, 2):
        done.add(line)
    assert len(done) == 2
    assert numbers(path, done=done) == [1, 3, 4]


@given(st.sets(st.integers(0, 100)))
def test_a_set_of_lines_is_a_set(lines: set[int]) -> None:
    found = LineSet()
    for line in lines:
        found.add(line)
    assert {line for line in range(200) if line in found} == lines
    assert len(found) == len(lines)


@pytest.mark.parametrize(
    ("before", "after", "same"),
    [
        (PROMPT, PROMPT, True),
        (PROMPT, PROMPT * 2, True),
        (PROMPT.strip(), PROMPT, True),
        (PROMPT.strip(), PROMPT.strip() + b"\r\n" + PROMPT, True),
        (PROMPT * 2, PROMPT, False),
        (PROMPT * 2, PROMPT + BODY, False),
        (PROMPT.strip(), PROMPT.strip() + b" " + PROMPT[:0] + b"\n", True),
        (b'{"prompt": 1}', b'{"prompt": 1}\n' * 3, True),
    ],
)
def test_lines_may_be_added_to_an_input(
    path: Path, before: bytes, after: bytes, same: bool
) -> None:
    path.write_bytes(before)
    begun = scan_input(path).extent
    path.write_bytes(after)
    assert (scan_input(path, begun=begun).begun == begun) is same


def test_what_is_added_after_the_scan_is_left_alone(path: Path) -> None:
    path.write_bytes(PROMPT)
    scan = scan_input(path)
    path.write_bytes(PROMPT * 3)
    assert [line.number for line in read_rows(scan, LineSet())] == [1]


@given(st.lists(st.sampled_from([PROMPT, b"\r\n", BODY]), min_size=1), st.integers(1, 5))
def test_blocks_have_the_lines_of_the_file(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], count: int
) -> None:
    path = tmp_path_factory.mktemp("blocks") / "in.jsonl"
    path.write_bytes(b"".join(lines) + PROMPT.strip())
    scan = scan_input(path)
    blocks = list(split_lines(scan, count))
    found = [line for block in blocks for line in read_block(path, block)]
    assert found == list(read_rows(scan, LineSet()))
    assert len(blocks) == -(-(len(lines) + 1) // count)
    path.write_bytes(path.read_bytes() + b"\n" + PROMPT)
    assert list(split_lines(scan, 1000)) == [Block(1, 0, scan.extent.size)]
    assert list(read_rows(scan, LineSet())) == found


IMAGE = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "a.png"}}]}]


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"prompt": "a", "image": "a.png"}, True),
        ({"prompt": "a", "image": None}, False),
        ({"prompt": 'an "image"'}, False),
        ({"messages": IMAGE}, True),
        ({"custom_id": "a", "body": {"messages": IMAGE}}, True),
        ({"custom_id": "a", "body": [IMAGE]}, False),
        ({"messages": [1, {"content": [1, {"type": "text"}, {"type": "image"}]}]}, True),
        ({"messages": {"content": "image"}}, False),
    ],
)
def test_rows_with_images_are_seen(path: Path, row, expected: bool) -> None:
    assert has_image(row) is expected
    path.write_text(f"{PROMPT.decode()}{json.dumps(row)}\n")
    assert scan_input(path).first_image == (2 if expected else None)
    assert scan_input(path, Shard(1, 2)).first_image is None


def test_an_image_is_seen_whatever_its_spelling(path: Path) -> None:
    path.write_bytes(b'{"prompt": "a", "im\\u0061ge": "a.png"}\n')
    assert scan_input(path).first_image == 1
