"""The input of a batch: JSON lines, streamed twice.

`scan_input` reads the whole file before weights load: it rejects invalid lines, counts rows and
finds duplicate ids. `read_rows` then yields the rows during generation. Neither holds more than one
line, one bit per line and, during the scan, one number per id.

A line is one of

- OpenAI's batch format, which `vllm run-batch` also reads:
  `{"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": {"messages": ...}}`,
  or with the url `/v1/embeddings` and `{"input": ...}`;
- a plain row with any other fields: `{"messages": [...]}` or `{"prompt": "..."}`, and optionally
  `"image"`, and `"custom_id"` or `"id"`.
"""

from __future__ import annotations

import hashlib
import json
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec

from ..base.errors import SetupError
from ..base.json_types import JsonObject, NestingError, check_nesting
from ..base.limits import MAX_BATCH_LINE
from .contracts import RequestKind

# The `url` of rows of embeddings.
EMBEDDINGS_URL = "/v1/embeddings"
# The field of a plain row that holds the answer in the output.
RESPONSE = "response"

_POSITION = re.compile(r" \(byte (\d+)\)")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class InputError(SetupError):
    """The input is not a valid batch. line, column: where, from 1."""

    def __init__(self, path: Path, line: int, column: int, reason: str) -> None:
        self.line = line
        self.column = column
        super().__init__(f"--input {path}, line {line}, column {column}: {reason}")


class Shard(NamedTuple):
    """One of `parts` parts of the lines: every such line, beginning with line `number`."""

    number: int = 1
    parts: int = 1

    def has(self, line: int) -> bool:
        """Whether the part includes this line (from 1)."""
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
        """Add a line number, possibly again."""
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
    """The part of a file that was read: its length in bytes and their BLAKE2b digest."""

    size: int
    digest: str


NOTHING = Extent(0, "")


@dataclass
class InputScan:
    """The facts found in a whole input.

    rows: their number in this shard. extent: of the whole file. begun: of the part that an earlier
        run saw, in its current state; None if the file has no such part.
    duplicates: lines whose id also occurs in an earlier line. first_image: this shard's first
        line with an image, or None. embeds: whether the file's first row asks for embeddings.
    """

    path: Path
    shard: Shard
    rows: int = 0
    extent: Extent = NOTHING
    begun: Extent | None = None
    duplicates: LineSet = field(default_factory=LineSet)
    first_image: int | None = None
    embeds: bool = False

    @property
    def kinds(self) -> list[RequestKind]:
        """The kinds of rows: a batch of embeddings has no others."""
        return ["embed"] if self.embeds else list_kinds(has_images=self.first_image is not None)


def list_kinds(*, has_images: bool) -> list[RequestKind]:
    """Return the kinds of rows for answers."""
    return ["vlm", "text"] if has_images else ["text"]


_decode_row = msgspec.json.Decoder(dict[str, object]).decode


def scan_input(path: Path, shard: Shard = WHOLE, begun: Extent | None = None) -> InputScan:
    """Scan the whole file.

    begun: the input of the run to resume; lines may have been appended since.
    Raises `InputError` for a line that is too long, is not JSON or is not a row, and `SetupError`
    for a file that cannot be read or has no rows.
    """
    scan, digest, size, ids = InputScan(path, shard), _digest(), 0, set[int]()
    for number, raw in _read_raw(path):
        if begun is not None and size < begun.size <= size + len(raw):
            scan.begun = _end_within(raw, begun.size - size, begun.size, digest)
        digest.update(raw)
        size += len(raw)
        if text := _strip(number, raw):
            _count(scan, ids, Line(number, text))
    if not ids:
        raise SetupError(f"--input {path} has no rows; name a file with a JSON object per line.")
    scan.extent = Extent(size, digest.hexdigest())
    return scan


def _count(scan: InputScan, ids: set[int], line: Line) -> None:
    """Count the row in a line. ids: of the rows before it, as hashes."""
    row = read_row(scan.path, line)
    if not ids:
        scan.embeds = row.get("url") == EMBEDDINGS_URL
    # 64 bits per id: among 100 million ids, two collide in 1 of 4,000 files.
    key = hash(read_id(row, line.number))
    if key in ids:
        scan.duplicates.add(line.number)
    ids.add(key)
    if not scan.shard.has(line.number):
        return
    scan.rows += 1
    # Few rows contain the word, plain or escaped, and searching the parts takes longer.
    may_have_image = b'"image' in line.text or b"\\u" in line.text
    if scan.first_image is None and may_have_image and has_image(row):
        scan.first_image = line.number


class Block(NamedTuple):
    """Consecutive lines: the number of the first, and their position in bytes."""

    first: int
    start: int
    end: int


def read_rows(scan: InputScan, done: LineSet) -> Iterator[Line]:
    """Yield the shard's rows whose line is not in `done`, in the order of the file.

    Ignores lines appended after the scan. Raises as `scan_input`.
    """
    for line in read_block(scan.path, Block(1, 0, scan.extent.size)):
        if scan.shard.has(line.number) and line.number not in done:
            yield line


def split_lines(scan: InputScan, lines: int) -> Iterator[Block]:
    """Yield the file in blocks of this many lines, the last one shorter. Raises `InputError`."""
    first, start, end = 1, 0, 0
    for number, raw in _read_raw(scan.path):
        end = min(end + len(raw), scan.extent.size)
        if number - first + 1 == lines or end == scan.extent.size:
            yield Block(first, start, end)
            first, start = number + 1, end
        if end == scan.extent.size:
            return


def read_block(path: Path, block: Block) -> Iterator[Line]:
    """Yield the lines of a block that are not blank. Raises as `scan_input`."""
    start = block.start
    for number, raw in _read_raw(path, block.start, block.first):
        if start >= block.end:
            return
        # Also ignore what was appended to the last line.
        if text := _strip(number, raw[: block.end - start]):
            yield Line(number, text)
        start += len(raw)


def read_row(path: Path, line: Line) -> JsonObject:
    """Return the row in a line. Raises `InputError` for an invalid row."""
    row = _decode_line(path, line)
    if fault := _find_fault(row):
        raise InputError(path, line.number, 1, fault)
    return row


def read_id(row: JsonObject, number: int) -> str:
    """Return the id that a row gives itself, else the number of its line."""
    found = row.get("id") if row.get("custom_id") is None else row["custom_id"]
    return f"line-{number}" if found is None else str(found)


def has_image(row: JsonObject) -> bool:
    """Whether a row has an image, valid or not."""
    return row.get("image") is not None or bool(find_image_parts(row.get("body", row)))


def find_image_parts(body: object) -> list[JsonObject]:
    """Return the image parts of the messages' contents, valid or not."""
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
    """Return why an object is not a valid row; None if it is."""
    if "body" in row:
        if isinstance(row.get("custom_id"), str):
            return None
        return "a row with a `body` needs a `custom_id` that is a string."
    if "messages" not in row and "prompt" not in row:
        return "this is not a row: it has neither `body` nor `messages` nor `prompt`."
    if RESPONSE in row:
        return f"the row has a field `{RESPONSE}`, which is for its answer; rename it."
    return None


def _end_within(raw: bytes, end: int, size: int, digest: hashlib.blake2b) -> Extent | None:
    """Return the extent of `size` bytes if it ends in this line; None if that would cut a row.

    end: how much of the line to include: all, or all but its line break. digest: of what precedes.
    """
    if raw[end:].strip():
        return None
    digest = digest.copy()
    digest.update(raw[:end])
    return Extent(size, digest.hexdigest())


def _digest() -> hashlib.blake2b:
    return hashlib.blake2b(digest_size=16)


def _open_regular(path: Path) -> BinaryIO:
    """Open the file; raise `SetupError` for none, and for a folder, a pipe or a device."""
    try:
        # Opening a pipe would wait for a writer.
        if stat.S_ISREG(path.stat().st_mode):
            return path.open("rb")
    except OSError as error:
        raise SetupError(f"--input {path} cannot be read: {error.strerror}.") from error
    raise SetupError(f"--input {path} is not a regular file, which it must be to be read twice.")


def _read_raw(path: Path, start: int = 0, first: int = 1) -> Iterator[tuple[int, bytes]]:
    """Yield the lines with their numbers and line breaks.

    start: the byte at which line number `first` begins.
    """
    with _open_regular(path) as file:
        file.seek(start)
        number = first
        while raw := file.readline(MAX_BATCH_LINE + 1):
            if len(raw) > MAX_BATCH_LINE:
                reason = f"the line has more than {MAX_BATCH_LINE:,} bytes."
                raise InputError(path, number, 1, reason)
            yield number, raw
            number += 1


def _strip(number: int, raw: bytes) -> bytes:
    """Return a line without white space and, at the beginning, without the byte order mark."""
    return (raw.removeprefix(_BYTE_ORDER_MARK) if number == 1 else raw).strip()


def _decode_line(path: Path, line: Line) -> JsonObject:
    """Return the JSON object in a line. Raises `InputError` with the fault's position."""
    try:
        return _decode_row(check_nesting(line.text))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        position, reason = _find_fault_in_json(line.text, error)
        column = len(line.text[:position].decode(errors="replace")) + 1
        raise InputError(path, line.number, column, f"{reason}.") from error


def _find_fault_in_json(text: bytes, error: Exception) -> tuple[int, str]:
    """Return the position of a decoder's error in a line, and a message.

    The standard library's decoder gives the exact position, unless it accepts the text.
    """
    if isinstance(error, NestingError | msgspec.ValidationError):
        return 0, str(error)
    try:
        json.loads(text.decode())
    except json.JSONDecodeError as exact:
        return len(exact.doc[: exact.pos].encode()), f"not JSON: {exact.msg}"
    except UnicodeDecodeError as exact:
        found = f"byte 0x{text[exact.start]:02x} is not UTF-8"
        return exact.start, f"{found}; save the file as UTF-8"
    place = _POSITION.search(str(error))
    return int(place[1]) if place else len(text), _POSITION.sub("", str(error))
