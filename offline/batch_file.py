"""The input of a batch: JSON lines, read as a stream, twice.

`scan_input` reads the whole file before any weights load: it refuses what is no batch, counts the
rows and finds ids that come twice. `read_rows` then yields the rows as they are generated.
Neither holds more than one line, beside one bit per line and, during the scan, one number per id.

A line is one of

- OpenAI's batch format, which `vllm run-batch` reads as well:
  `{"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": {"messages": ...}}`;
- a plain row, with other fields as it likes: `{"messages": [...]}` or `{"prompt": "..."}`, and
  perhaps `"image"`, and `"custom_id"` or `"id"`.
"""

from __future__ import annotations

import hashlib
import json
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec

from ..base.errors import SetupError
from ..base.json_types import JsonObject

# Of a line, in bytes: room for an image in a data URL.
MAX_LINE_BYTES = 67_108_864
# The field of a plain row under which the output has the answer.
RESPONSE = "response"

_POSITION = re.compile(r" \(byte (\d+)\)")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class InputError(SetupError):
    """The input cannot be read as a batch. line, column: where, both from 1."""

    def __init__(self, path: Path, line: int, column: int, reason: str) -> None:
        self.line = line
        self.column = column
        super().__init__(f"--input {path}, line {line}, column {column}: {reason}")


class Shard(NamedTuple):
    """One of several `parts` of the lines: every such line, beginning with line `number`."""

    number: int = 1
    parts: int = 1

    def has(self, line: int) -> bool:
        """Whether the line of this number (from 1) belongs to the part."""
        return line % self.parts == self.number % self.parts

    def __str__(self) -> str:
        return f"{self.number}/{self.parts}"


WHOLE = Shard()


class LineSet:
    """A set of line numbers that takes one bit per line."""

    def __init__(self) -> None:
        self._bits = bytearray()
        self._size = 0

    def __contains__(self, line: int) -> bool:
        byte, bit = divmod(line, 8)
        return byte < len(self._bits) and bool(self._bits[byte] >> bit & 1)

    def __len__(self) -> int:
        return self._size

    def add(self, line: int) -> None:
        """Add a line number; it may be there already."""
        if line in self:
            return
        byte, bit = divmod(line, 8)
        if byte >= len(self._bits):
            self._bits.extend(bytes(byte + 1 - len(self._bits)))
        self._bits[byte] |= 1 << bit
        self._size += 1


class Line(NamedTuple):
    """A line that is not blank. number: from 1. text: without the line break."""

    number: int
    text: bytes


class Extent(msgspec.Struct, frozen=True):
    """How much of a file was read: its length in bytes, and the BLAKE2b digest of these bytes."""

    size: int
    digest: str


class InputScan(msgspec.Struct, frozen=True, kw_only=True):
    """What a whole input holds.

    rows: their number in this shard. extent: of the whole file. begun: of the part that an earlier
        run saw, as it is now; None if the file has no such part.
    duplicates: lines whose id stands in an earlier line, too. first_image: the first line of this
        shard that has an image, None if there is none.
    """

    path: Path
    shard: Shard
    rows: int
    extent: Extent
    begun: Extent | None
    duplicates: LineSet
    first_image: int | None


_decode_row = msgspec.json.Decoder(dict[str, object]).decode


class _Counter:
    """Adds up what the scan of a file finds, line by line."""

    def __init__(self, shard: Shard) -> None:
        self.rows = 0
        self.rows_in_all = 0
        self.duplicates = LineSet()
        self.first_image: int | None = None
        self._shard = shard
        self._ids = set[int]()

    def add(self, number: int, text: bytes, row: JsonObject) -> None:
        """Count the row in the line of this number. text: of the line."""
        self.rows_in_all += 1
        # 64 bits for an id: among 100 million ids two are taken for one in 1 of 4,000 files.
        key = hash(read_id(row, number))
        if key in self._ids:
            self.duplicates.add(number)
        self._ids.add(key)
        if not self._shard.has(number):
            return
        self.rows += 1
        # Few rows have the word, plain or escaped, and to look for the parts takes longer.
        if self.first_image is None and (b'"image' in text or b"\\u" in text) and has_image(row):
            self.first_image = number


def scan_input(path: Path, shard: Shard = WHOLE, begun: Extent | None = None) -> InputScan:
    """Read the whole file and return what it holds.

    begun: the input of the run that is continued; lines may have been added to it since.
    Raises `InputError` for a line that is too long, is not JSON or is no row, and `SetupError` for
    a file that cannot be read or has no rows.
    """
    digest, size, begun_now, counter = _digest(), 0, None, _Counter(shard)
    for number, raw in _read_raw(path):
        if begun is not None and size < begun.size <= size + len(raw):
            begun_now = _end_within(raw, begun.size - size, begun.size, digest)
        digest.update(raw)
        size += len(raw)
        if text := _strip(number, raw):
            counter.add(number, text, read_row(path, Line(number, text)))
    if not counter.rows_in_all:
        raise SetupError(f"--input {path} has no rows; name a file with a JSON object per line.")
    return InputScan(
        path=path,
        shard=shard,
        rows=counter.rows,
        extent=Extent(size, digest.hexdigest()),
        begun=begun_now,
        duplicates=counter.duplicates,
        first_image=counter.first_image,
    )


class Block(NamedTuple):
    """Some lines that stand together: the number of the first, and where they are in bytes."""

    first: int
    start: int
    end: int


def read_rows(scan: InputScan, done: LineSet) -> Iterator[Line]:
    """Yield the shard's rows whose line is not in `done`, in the order of the file.

    What was added to the file after the scan is left alone. Raises as `scan_input` does.
    """
    for line in read_block(scan.path, Block(1, 0, scan.extent.size)):
        if scan.shard.has(line.number) and line.number not in done:
            yield line


def split_lines(scan: InputScan, lines: int) -> Iterator[Block]:
    """Yield the file in blocks of so many lines, the last one of fewer. Raises `InputError`."""
    first, start, end = 1, 0, 0
    for number, raw in _read_raw(scan.path):
        end = min(end + len(raw), scan.extent.size)
        if number - first + 1 == lines or end == scan.extent.size:
            yield Block(first, start, end)
            first, start = number + 1, end
        if end == scan.extent.size:
            return


def read_block(path: Path, block: Block) -> Iterator[Line]:
    """Yield the lines of a block that are not blank. Raises as `scan_input` does."""
    start = block.start
    for number, raw in _read_raw(path, block.start, block.first):
        if start >= block.end:
            return
        # What was added to the last line is left alone, too.
        if text := _strip(number, raw[: block.end - start]):
            yield Line(number, text)
        start += len(raw)


def read_row(path: Path, line: Line) -> JsonObject:
    """Return the row in a line. Raises `InputError` where there is none."""
    row = _decode_line(path, line)
    if fault := _find_fault(row):
        raise InputError(path, line.number, 1, fault)
    return row


def read_id(row: JsonObject, number: int) -> str:
    """Return the id of a row: the one it gives itself, else the number of its line."""
    found = row.get("id") if row.get("custom_id") is None else row["custom_id"]
    return f"line-{number}" if found is None else str(found)


def has_image(row: JsonObject) -> bool:
    """Whether a row has an image, readable or not."""
    return row.get("image") is not None or bool(find_image_parts(row.get("body", row)))


def find_image_parts(body: object) -> list[JsonObject]:
    """Return the parts of the messages' contents that are images, whatever they hold."""
    messages = body.get("messages") if isinstance(body, dict) else None
    contents = [
        message.get("content")
        for message in (messages if isinstance(messages, list) else ())
        if isinstance(message, dict)
    ]
    return [
        part
        for content in contents
        for part in (content if isinstance(content, list) else ())
        if isinstance(part, dict) and str(part.get("type")).startswith("image")
    ]


def _find_fault(row: JsonObject) -> str | None:
    """Return why an object is no row of a batch."""
    if "body" in row:
        if isinstance(row.get("custom_id"), str):
            return None
        return "a row with a `body` needs a `custom_id` that is a string."
    if "messages" not in row and "prompt" not in row:
        return "this is no row: it has neither `body` nor `messages` nor `prompt`."
    if RESPONSE in row:
        return f"the row has a field `{RESPONSE}`, which is for its answer; rename it."
    return None


def _end_within(raw: bytes, end: int, size: int, digest: hashlib.blake2b) -> Extent | None:
    """Return the extent of `size` bytes that ends in this line, None if it would cut a row.

    end: how much of the line is in it; all, or all but its line break. digest: of what precedes.
    """
    if raw[end:].strip():
        return None
    digest = digest.copy()
    digest.update(raw[:end])
    return Extent(size, digest.hexdigest())


def _digest() -> hashlib.blake2b:
    return hashlib.blake2b(digest_size=16)


def open_regular(path: Path, flag: str) -> BinaryIO:
    """Open a file to read bytes. flag: of the command line, for the error.

    Raises `SetupError` if there is no such file, or if it is a folder, a pipe or a device.
    """
    try:
        # Opening a pipe would wait for who writes into it.
        if stat.S_ISREG(path.stat().st_mode):
            return path.open("rb")
    except OSError as error:
        raise SetupError(f"{flag} {path} cannot be read: {error.strerror}.") from error
    raise SetupError(f"{flag} {path} is no regular file; it is read twice, so name a file.")


def _read_raw(path: Path, start: int = 0, first: int = 1) -> Iterator[tuple[int, bytes]]:
    """Yield the lines with their numbers and their line breaks.

    start: the byte at which line number `first` begins.
    """
    with open_regular(path, "--input") as file:
        file.seek(start)
        number = first
        while raw := file.readline(MAX_LINE_BYTES + 1):
            if len(raw) > MAX_LINE_BYTES:
                reason = f"the line has more than {MAX_LINE_BYTES:,} bytes."
                raise InputError(path, number, 1, reason)
            yield number, raw
            number += 1


def _strip(number: int, raw: bytes) -> bytes:
    """Return a line without white space and, at the file's beginning, the byte order mark."""
    return (raw.removeprefix(_BYTE_ORDER_MARK) if number == 1 else raw).strip()


def _decode_line(path: Path, line: Line) -> JsonObject:
    """Return the JSON object in a line. Raises `InputError` with the place of the fault."""
    position = 0
    try:
        return _decode_row(line.text)
    except UnicodeDecodeError:
        position, reason = _find_foreign_byte(line.text)
    except RecursionError:
        reason = "the line is nested too deeply."
    except msgspec.ValidationError as error:
        reason = f"{error}."
    except msgspec.DecodeError as error:
        position, reason = _find_malformed(line.text, error)
    column = len(line.text[:position].decode(errors="replace")) + 1
    raise InputError(path, line.number, column, reason)


def _find_malformed(text: bytes, error: msgspec.DecodeError) -> tuple[int, str]:
    """Return the position of what is not JSON, and what to say of it.

    The standard library's decoder gives the exact position, unless it takes what msgspec does not.
    """
    try:
        json.loads(text.decode())
    except json.JSONDecodeError as exact:
        return len(exact.doc[: exact.pos].encode()), f"not JSON: {exact.msg}."
    except UnicodeDecodeError:
        return _find_foreign_byte(text)
    except RecursionError:
        pass
    found = _POSITION.search(str(error))
    return int(found[1]) if found else len(text), f"{_POSITION.sub('', str(error))}."


def _find_foreign_byte(text: bytes) -> tuple[int, str]:
    """Return the position of the first byte that is not UTF-8's, and what to say of it."""
    try:
        text.decode()
    except UnicodeDecodeError as error:
        return error.start, f"byte 0x{text[error.start]:02x} is not UTF-8; save the file as UTF-8."
    return 0, "not UTF-8; save the file as UTF-8."
