"""The output of a batch: a line for each row, written whole or not at all, and resumable.

The file `out.jsonl.run` next to the output `out.jsonl` records how the output is made: the model,
all options, the shard and the input's digest. A run with the same arguments resumes; one with other
arguments is rejected. Progress is stored only in the output: each line's `id` has the number of its
row's line.

A process that writes holds a lock on the output. The lock ends with the process for any reason, and
an engine that outlives the process does not hold it.

An answer has its row's form: OpenAI's batch output for a row with a `body`, else the row itself
with a field `response`. Equal results give equal lines, without times or random ids.
"""

from __future__ import annotations

import base64
import contextlib
import errno
import fcntl
import os
import stat
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Self

import msgspec

from ..base.errors import BackedgeError, SetupError, shorten
from ..base.json_types import JsonObject, check_nesting, encode_line
from ..recording.writer import write_all
from .batch_file import RESPONSE, Extent, InputScan, LineSet
from .results import GeneratedChoice, GenerationResult, ParsedMessage, RowError

VERSION = 1
ID_PREFIX = "backedge-"
# Number of differing settings that an error names.
SHOWN_DIFFERENCES = 5
_SHOWN_VALUE = 60


class OutputError(BackedgeError):
    """The output could not be written. Its lines are whole, and the run can be resumed."""


class RunRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The content of `out.jsonl.run`.

    settings: every option by name, as JSON values. input: the part that the run has seen.
    """

    version: int = VERSION
    settings: JsonObject
    input: Extent


class _Response(msgspec.Struct):
    id: str | None = None
    error: object = None


class _Written(msgspec.Struct):
    """The fields of an output line that are read: OpenAI's form, or a plain row's."""

    id: object = None
    error: object = None
    response: _Response | None = None


_decode_written = msgspec.json.Decoder(_Written).decode


def _read_answer(text: bytes) -> tuple[int | None, bool]:
    """Return the line of an answer's row, None if it is no answer, and whether the row failed."""
    try:
        written = _decode_written(check_nesting(text))
    except (msgspec.DecodeError, UnicodeDecodeError):
        written = _Written()
    response = written.response or _Response()
    line = str(response.id or written.id).removeprefix(ID_PREFIX)
    failed = (response.error or (None if response.id else written.error)) is not None
    return int(line) if line.isdecimal() else None, failed


def build_id(line: int) -> str:
    """Return the id of the answer to the row in this input line."""
    return f"{ID_PREFIX}{line}"


class BatchOutput:
    """The output file of a run; a context manager that holds the lock.

    path: need not exist. Nothing is created or changed before `begin`.
    done: input lines that have a result; `failed` of these are errors.
    record: how the output was begun, None if it was not.
    Raises `SetupError` if another process writes it, or if it is no output of this command.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.record_path = path.with_name(f"{path.name}.run")
        self.done = LineSet()
        self.failed = 0
        self.record: RunRecord | None = None
        self._size = 0
        self._descriptor = self._open()
        try:
            self._read()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Flush the output to disk and release the lock."""
        if self._descriptor is not None:
            descriptor, self._descriptor = self._descriptor, None
            # A failing disk has failed before, or will at the next start.
            try:
                os.fsync(descriptor)
            except OSError as error:
                raise self._describe(error) from error
            finally:
                os.close(descriptor)

    def check_settings(self, settings: JsonObject) -> None:
        """Raise `SetupError` if the output was started with other settings.

        settings: all that determines the answers, JSON values by name of the flag.
        """
        if self.record is None or not self._size:
            return
        if self.record.version != VERSION:
            raise SetupError(f"{self.record_path} is of another version; name another output.")
        before = self.record.settings
        different = [
            f"{name} {_show(before.get(name))}, now {_show(settings.get(name))}"
            for name in sorted(settings.keys() | before.keys())
            if before.get(name) != settings.get(name)
        ]
        if different:
            shown = "; ".join(different[:SHOWN_DIFFERENCES])
            raise SetupError(
                f"--output {self.path} was started with other settings ({shown}); name another "
                "output, or use the original settings."
            )

    def begin(self, settings: JsonObject, scan: InputScan) -> None:
        """Check that the output belongs to this input, and prepare it for more lines.

        Raises `SetupError` if the input has changed, or the output cannot be written.
        """
        self._check_input(scan)
        try:
            if self._descriptor is None:
                self._descriptor = self._create()
            record = RunRecord(settings=settings, input=scan.extent)
            with _replacing(self.record_path) as file:
                file.write(msgspec.json.format(msgspec.json.encode(record), indent=2) + b"\n")
            os.ftruncate(self._descriptor, self._size)
        except OSError as error:
            raise self._refuse(error) from error

    def append(self, answer: bytes) -> None:
        """Write a line, or several in one piece. answer: JSON without a line break at its end.

        Raises `OutputError` if the disk is full or fails; no partial line remains.
        """
        if self._descriptor is None:
            raise OutputError(f"{self.path} is closed.")
        try:
            write_all(self._descriptor, answer + b"\n")
        except BaseException as error:
            os.ftruncate(self._descriptor, self._size)
            if isinstance(error, OSError):
                raise self._describe(error) from error
            raise
        self._size += len(answer) + 1

    def sort(self) -> None:
        """Put the lines into the order of the input's. Raises `OutputError`.

        The file is replaced when all lines are written, so a run that is killed here can be
        resumed.
        """
        starts, at = [], 0
        for text in self._lines():
            starts.append((_read_answer(text)[0] or 0, at, len(text)))
            at += len(text)
        try:
            with self.path.open("rb") as old, _replacing(self.path) as new:
                for _, start, size in sorted(starts):
                    old.seek(start)
                    new.write(old.read(size))
        except OSError as error:
            raise self._describe(error) from error

    def _describe(self, error: OSError) -> OutputError:
        return OutputError(
            f"{self.path} could not be written ({error.strerror}); its lines are whole."
        )

    def _refuse(self, error: OSError) -> SetupError:
        return SetupError(f"--output {self.path} cannot be written: {error.strerror}.")

    def _open(self) -> int | None:
        """Return a descriptor of the file, locked; None if there is no file."""
        flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK
        try:
            descriptor = os.open(self.path, flags)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._refuse(error) from error
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise SetupError(f"--output {self.path} is not a regular file; name a file.")
        self._lock(descriptor)
        return descriptor

    def _create(self) -> int:
        flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_CREAT | os.O_EXCL
        descriptor = os.open(self.path, flags, 0o666)
        self._lock(descriptor)
        return descriptor

    def _lock(self, descriptor: int) -> None:
        # A POSIX lock: flock's would be shared with forked engines. Closing any descriptor of it
        # releases it, so there is only this one.
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            if error.errno in {errno.EACCES, errno.EAGAIN}:
                raise SetupError(
                    f"--output {self.path} is being written by another process; wait for its end, "
                    "or name another output."
                ) from error
            raise SetupError(f"--output {self.path} cannot be locked: {error.strerror}.") from error

    def _read(self) -> None:
        """Read the settings of the output, and which rows have a result."""
        if self.record_path.exists():
            try:
                content = self.record_path.read_bytes()
                self.record = msgspec.json.decode(check_nesting(content), type=RunRecord)
            except (OSError, msgspec.DecodeError) as error:
                raise SetupError(f"{self.record_path} cannot be read: {error}.") from error
        elif self._descriptor is not None and os.fstat(self._descriptor).st_size:
            raise SetupError(
                f"--output {self.path} is not empty, but {self.record_path.name}, which records "
                "how it was made, is missing; name another output, or remove it."
            )
        for number, text in enumerate(self._lines(), 1):
            self._take(number, text)
            self._size += len(text)

    def _lines(self) -> Iterator[bytes]:
        """Yield the whole lines of the file; an incomplete last one comes from a kill."""
        if self._descriptor is None:
            return
        os.lseek(self._descriptor, 0, os.SEEK_SET)
        with open(self._descriptor, "rb", closefd=False) as file:
            yield from (line for line in file if line.endswith(b"\n"))

    def _take(self, number: int, text: bytes) -> None:
        line, failed = _read_answer(text)
        if line is None:
            raise SetupError(
                f"--output {self.path}, line {number} is not an answer of this command; "
                "name another output."
            )
        self.done.add(line)
        self.failed += failed

    def _check_input(self, scan: InputScan) -> None:
        if self.record is not None and self._size and self.record.input != scan.begun:
            raise SetupError(
                f"--input {scan.path} has changed since {self.path} was started: its first "
                f"{self.record.input.size:,} bytes differ; name another output. Lines may only "
                "be added."
            )


@contextlib.contextmanager
def _replacing(path: Path) -> Iterator[BinaryIO]:
    """Write a file that replaces the one at `path` when it is whole, or not at all."""
    beside = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        with beside.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def _show(value: object) -> str:
    return shorten(msgspec.json.encode(value).decode(), _SHOWN_VALUE)


# HTTP status by kind of failure; 400 for all others.
STATUS = {"generation": 500, "plugin": 500, "no_recording": 404}
# Fields of a choice, in the order of the output.
CHOICE_FIELDS = ("text", "finish_reason", "stop_reason", "logprobs", "message")
RAW_FIELDS = ("raw_text", "token_ids")


def build_answer(
    row: JsonObject, line: int, result: GenerationResult, *, model: str, raw: bool = False
) -> bytes:
    """Return the line for a row's result, without a line break.

    row: as it was read from line `line` of the input. model: its name in OpenAI's form.
    raw: whether the answers include `raw_text` and `token_ids`.
    """
    answer_id = build_id(line)
    if "body" in row:
        return encode_line(
            {
                "id": answer_id,
                "custom_id": row["custom_id"],
                "response": _build_response(answer_id, row["body"], result, model, raw=raw),
                "error": _build_error(result.error),
            }
        )
    return encode_line({**row, RESPONSE: _build_plain(answer_id, result, raw=raw)})


def _build_plain(answer_id: str, result: GenerationResult, *, raw: bool) -> JsonObject:
    """Return the `response` of a plain row: the answer, or several as `choices`."""
    head: JsonObject = {"id": answer_id, "backend": result.backend}
    if result.error is not None:
        return {**head, "error": _build_error(result.error)}
    choices = [_build_plain_choice(choice, raw=raw) for choice in result.choices]
    answer = choices[0] if len(choices) == 1 else {"choices": choices}
    return {**head, **answer, **_build_usage(result), "error": None}


def _build_plain_choice(choice: GeneratedChoice, *, raw: bool) -> JsonObject:
    names = (*CHOICE_FIELDS, *RAW_FIELDS) if raw else CHOICE_FIELDS
    fields = {name: getattr(choice, name) for name in names}
    # Fields that were not requested are omitted.
    return {
        name: value
        for name, value in fields.items()
        if value is not None or name not in {"logprobs", "message"}
    }


def _build_response(
    answer_id: str, asked: JsonObject, result: GenerationResult, model: str, *, raw: bool
) -> JsonObject:
    """Return the `response` of OpenAI's batch output. asked: the body of the row."""
    if result.error is not None:
        status, body = STATUS.get(result.error.kind, 400), {"error": _build_error(result.error)}
    else:
        status = 200
        if result.embeddings:
            body = _build_embeddings(asked, result, model)
        else:
            body = _build_completion(answer_id, result, model, raw=raw)
    return {"status_code": status, "request_id": answer_id, "body": body}


def _build_embeddings(body: JsonObject, result: GenerationResult, model: str) -> JsonObject:
    """Return OpenAI's list of embeddings. body: of the row."""
    is_text = body.get("encoding_format") == "base64"
    return {
        "object": "list",
        "data": [
            {
                "object": "embedding",
                "index": index,
                "embedding": base64.b64encode(array("f", vector)).decode() if is_text else vector,
            }
            for index, vector in enumerate(result.embeddings)
        ],
        "model": model,
        "usage": {"prompt_tokens": result.prompt_tokens, "total_tokens": result.prompt_tokens},
    }


def _build_completion(
    answer_id: str, result: GenerationResult, model: str, *, raw: bool
) -> JsonObject:
    usage = _build_usage(result)
    return {
        "id": f"chatcmpl-{answer_id}",
        "object": "chat.completion",
        # A time would make two runs of the same input differ.
        "created": 0,
        "model": model,
        "system_fingerprint": f"backedge-{result.backend}",
        "choices": [_build_choice(choice, raw=raw) for choice in result.choices],
        "usage": {**usage, "total_tokens": sum(usage.values())},
    }


def _build_choice(choice: GeneratedChoice, *, raw: bool) -> JsonObject:
    message = choice.message or ParsedMessage(None, choice.text, [], choice.finish_reason)
    fields: JsonObject = {"role": "assistant", "content": message.content}
    if message.reasoning is not None:
        fields["reasoning_content"] = message.reasoning
    if message.tool_calls:
        fields["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in message.tool_calls
        ]
    return {
        "index": choice.index,
        "message": fields,
        "logprobs": None if choice.logprobs is None else {"content": choice.logprobs},
        "finish_reason": message.finish_reason,
        "stop_reason": choice.stop_reason,
        **({name: getattr(choice, name) for name in RAW_FIELDS} if raw else {}),
    }


def _build_usage(result: GenerationResult) -> dict[str, int]:
    return {
        "prompt_tokens": result.prompt_tokens,
        "completion_tokens": result.completion_tokens,
    }


def _build_error(error: RowError | None) -> JsonObject | None:
    return None if error is None else {"code": error.kind, "message": error.message}
