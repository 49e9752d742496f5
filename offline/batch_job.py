"""Runs a batch of rows: makes requests for the engine, and writes each result at once.

The engine takes rows when it has room, so a file of any length needs memory only for the rows being
generated. Rows with an image are another kind of request, so a batch with both kinds is read twice.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any, TypeAlias, cast

import msgspec

from ..base.errors import RequestError, show
from ..base.json_types import JsonObject, decode_json
from .batch_file import EMBEDDINGS_URL, LineSet, find_image_parts, has_image, read_id
from .batch_output import build_answer
from .contracts import (
    EmbeddingRequest,
    GenerationOptions,
    OptionValueError,
    RequestKind,
    TextGenerationRequest,
    VlmGenerationRequest,
)
from .embeddings import read_embedding
from .engine import GenerationEngine
from .preparation import CONSTRAINTS
from .remote_images import is_remote
from .results import GenerationResult, RowError
from .rows import RowFailure, check_image_count, find_row_error

URL = "/v1/chat/completions"
# Fields of OpenAI's and vLLM's requests -> the row's option.
OPTION_FIELDS = {
    "max_tokens": "max_new_tokens",
    "max_completion_tokens": "max_new_tokens",
    "include_stop_str_in_output": "include_stop",
    **{
        name: name
        for name in "temperature top_p top_k min_p presence_penalty frequency_penalty "
        "repetition_penalty logit_bias seed n min_tokens ignore_eos stop stop_token_ids "
        "truncate_prompt_tokens chat_template_kwargs".split()
    },
}
# Fields of the request itself, with type and description.
REQUEST_FIELDS: dict[str, tuple[Any, str]] = {
    "messages": (list[JsonObject], "a list of objects"),
    "tools": (list[JsonObject], "a list of objects"),
    "tool_choice": (str | JsonObject, "a string or an object"),
    "parallel_tool_calls": (bool, "true or false"),
    "response_format": (JsonObject, "an object"),
    "guided_json": (JsonObject | str | bool, "a JSON Schema"),
    "guided_regex": (str, "a string"),
    "guided_grammar": (str, "a string"),
    "guided_choice": (list[str], "a list of strings"),
}
# Fields that do not affect the answer.
IGNORED_FIELDS = tuple(
    "metadata user store service_tier safety_identifier prompt_cache_key stream_options "
    "request_id priority".split()
)
# SGLang's name for vLLM's field.
RENAMED = {"no_stop_trim": "include_stop_str_in_output"}
CHECKED_FIELDS = ("model", "stream", "logprobs", "top_logprobs", "reasoning_effort")
# Fields that servers know and batches do not, with their neutral values.
NEUTRAL: JsonObject = {
    "best_of": 1,
    "echo": False,
    "use_beam_search": False,
    "length_penalty": 1,
    "return_token_ids": False,
    "add_generation_prompt": True,
    "continue_final_message": False,
    "add_special_tokens": False,
    "skip_special_tokens": True,
    "spaces_between_special_tokens": True,
    "include_reasoning": True,
    "modalities": ["text"],
}


@dataclasses.dataclass(frozen=True)
class RowReader:
    """Converts rows to requests.

    options: of the whole batch; a row's own fields override them. folder: base of relative
        image paths. models: the names that a `body` may use for the model. lora: those that a row
        may use for the model with an adapter.
    """

    options: GenerationOptions
    folder: Path
    models: Sequence[str]
    lora: Collection[str] = ()

    def read(self, row: JsonObject, number: int) -> TextGenerationRequest:
        """Return the request of the row in line `number`, with an image if it has one.

        Raises `RowFailure`.
        """
        try:
            fields = self._read_fields(row)
            fields["id"] = read_id(row, number)
            fields["lora"] = self.find_adapter(row)
            if has_image(row):
                return VlmGenerationRequest(**{**fields, **self._read_image(row, fields)})
            return TextGenerationRequest(**fields)
        except (RequestError, OptionValueError) as error:
            raise RowFailure("request", str(error)) from error

    def read_embedding(self, row: JsonObject, number: int) -> EmbeddingRequest:
        """Return the request of a row of embeddings. Raises `RowFailure`."""
        try:
            body = self._check_body(row, EMBEDDINGS_URL, self.models)
            return read_embedding(body, read_id(row, number))
        except RequestError as error:
            raise RowFailure("request", str(error)) from error

    def find_adapter(self, row: JsonObject) -> str | None:
        """Return the name of the adapter that a row asks for; None for the model alone."""
        body = row.get("body", row)
        name = body.get("model") if isinstance(body, dict) else None
        return name if isinstance(name, str) and name in self.lora else None

    def _read_fields(self, row: JsonObject) -> JsonObject:
        if "body" in row:
            return self._read_body(row)
        options = self._read_options({name: row[name] for name in row if row[name] is not None})
        if "messages" in row:
            return {**_read_request(row), "options": options}
        own = _read_request(row, names=CONSTRAINTS)
        return {"prompt": row["prompt"], **own, "options": options}

    def _read_body(self, row: JsonObject) -> JsonObject:
        fields = self._check_body(row, URL, (*self.models, *self.lora))
        if "messages" not in fields:
            raise RequestError("body.messages", "is missing")
        nested = _read_options_in_metadata(fields.get("metadata"))
        fields |= nested
        known = {*OPTION_FIELDS, *REQUEST_FIELDS, *IGNORED_FIELDS, *CHECKED_FIELDS}
        for name in fields.keys() - known:
            if name not in NEUTRAL or fields[name] != NEUTRAL[name]:
                path = "metadata.backedge" if name in nested else "body"
                raise RequestError(f"{path}.{name}", "is not supported here; leave it out")
        if fields.get("stream", False) is not False:
            raise RequestError.wrong("body.stream", fields["stream"], "false")
        return {**_read_request(fields, "body."), "options": self._read_options(fields)}

    def _check_body(self, row: JsonObject, url: str, models: Sequence[str]) -> JsonObject:
        """Return the fields of a body that are not null. Raises `RequestError`."""
        body = row.get("body")
        if not isinstance(body, dict):
            raise RequestError.wrong("body", body, "an object")
        for name, allowed in (("url", url), ("method", "POST")):
            if row.get(name, allowed) != allowed:
                raise RequestError.wrong(name, row[name], allowed)
        fields = {name: value for name, value in body.items() if value is not None}
        if fields.get("model", models[0]) not in models:
            raise RequestError.wrong("body.model", fields["model"], " or ".join(models))
        return fields

    def _read_options(self, fields: JsonObject) -> GenerationOptions | None:
        """Return the batch's options, overridden by the row's fields; None if it has none."""
        own = {option: fields[name] for name, option in OPTION_FIELDS.items() if name in fields}
        stop = own.get("stop")
        if isinstance(stop, list) and stop and all(isinstance(each, int) for each in stop):
            own |= {"stop": (), "stop_token_ids": stop}
        if "logprobs" in fields or "top_logprobs" in fields:
            own["logprobs"] = _read_logprobs(fields)
        if (effort := fields.get("reasoning_effort")) is not None:
            if not isinstance(effort, str):
                raise RequestError.wrong("reasoning_effort", effort, "a string")
            kwargs = own.get("chat_template_kwargs", self.options.chat_template_kwargs)
            # As in servers, where this field overrides the variable.
            own["chat_template_kwargs"] = {**kwargs, "reasoning_effort": effort}
        return self._override(own, fields) if own else None

    def _override(self, own: JsonObject, fields: JsonObject) -> GenerationOptions:
        """Return the batch's options with the row's `own`. Raises `RequestError`."""
        try:
            return dataclasses.replace(self.options, **own)
        except OptionValueError as error:
            written = {option: name for name, option in OPTION_FIELDS.items() if name in fields}
            written["logprobs"] = "top_logprobs"
            raise RequestError(written.get(error.field, error.field), error.problem) from error

    def _read_image(self, row: JsonObject, fields: JsonObject) -> JsonObject:
        """Return the images, and the messages with plain placeholders for them."""
        body, own = row.get("body", row), row.get("image")
        parts = find_image_parts(body)
        if own is None:
            found = [_read_part(part) for part in parts]
        else:
            found = own if isinstance(own, list) else [own]
        if own is not None and parts:
            message = "the row has images in `image` and in its messages; put all in one place."
            raise RowFailure("image", message)
        check_image_count(len(found))
        images = [self._load(source) for source in found]
        image: JsonObject = {"image": images[0] if len(images) == 1 else images}
        if not parts:
            return image
        return {**image, "messages": _mark_image(fields["messages"])}

    def _load(self, source: object) -> Path | bytes | str:
        """Return the image's path, its URL, or its bytes if the row contains them."""
        if not isinstance(source, str) or not source:
            raise RowFailure("image", _describe_image(source))
        if source.startswith("data:"):
            head, _, data = source.partition(",")
            try:
                if head.endswith(";base64"):
                    return base64.b64decode(data, validate=True)
            except (binascii.Error, ValueError):
                pass
            raise RowFailure("image", _describe_image(source))
        if is_remote(source):
            return source
        return self.folder / source.removeprefix("file://")


def _describe_image(source: object) -> str:
    return (
        f"the image must not be {show(source)}, but a file's path, or a URL that begins with "
        "`data:` and contains the bytes in base64."
    )


def _read_request(
    fields: JsonObject, path: str = "", names: Iterable[str] = REQUEST_FIELDS
) -> JsonObject:
    """Return the fields of the request itself. Raises `RequestError` for wrong types."""
    found = {name: fields[name] for name in names if fields.get(name) is not None}
    for name, value in found.items():
        kind, allowed = REQUEST_FIELDS[name]
        try:
            msgspec.convert(value, kind)
        except msgspec.ValidationError as error:
            raise RequestError.wrong(f"{path}{name}", value, allowed) from error
    return found


def _read_options_in_metadata(metadata: object) -> JsonObject:
    """Return the fields in `metadata.backedge`, which servers take there. Raises `RequestError`."""
    given = metadata.get("backedge") if isinstance(metadata, dict) else None
    if given is None:
        return {}
    try:
        found = decode_json(given) if isinstance(given, str) else given
    except ValueError as error:
        raise RequestError.wrong("metadata.backedge", given, "an object") from error
    if not isinstance(found, dict):
        raise RequestError.wrong("metadata.backedge", given, "an object")
    fields: JsonObject = found
    return {RENAMED.get(name, name): value for name, value in fields.items()}


def _read_logprobs(fields: JsonObject) -> int | None:
    """Return the number of alternatives; None for no logprobs."""
    wanted, top = fields.get("logprobs", False), fields.get("top_logprobs", 0)
    if not isinstance(wanted, bool):
        raise RequestError.wrong("logprobs", wanted, "true or false")
    if not wanted:
        if top:
            raise RequestError("top_logprobs", "requires `logprobs` to be true")
        return None
    # The options validate the number.
    return top  # type: ignore[no-any-return]  # a JSON value


def _read_part(part: JsonObject) -> object:
    """Return the image of an image part in OpenAI's or transformers' form."""
    for name in ("image_url", "image", "url", "path"):
        if (found := part.get(name)) is not None:
            return found.get("url") if isinstance(found, dict) else found
    return None


def _mark_image(messages: Sequence[JsonObject]) -> list[JsonObject]:
    """Replace the image part in the messages by `{"type": "image"}`."""
    marked = list(messages)
    for position, message in enumerate(messages):
        if parts := find_image_parts({"messages": [message]}):
            content = [{"type": "image"} if part in parts else part for part in message["content"]]
            marked[position] = {**message, "content": content}
    return marked


ReadRows: TypeAlias = Callable[[], Iterator[tuple[int, JsonObject]]]
"""Returns the rows to generate with their line numbers; may be called twice."""
WriteAnswer: TypeAlias = Callable[[int, bytes, GenerationResult], None]
"""Takes a row's line number, the line of its answer, and its result."""


class BatchJob:
    """Generates rows.

    kinds: of the rows: "text", and "vlm" if any has an image; or "embed" alone.
    duplicates: lines whose id an earlier one has. raw: as in `build_answer`.
    flush: called when the written answers must reach the disk, all or none of them.
    stopping: set to True at any time to start no more rows; those being generated are finished.
    """

    def __init__(
        self,
        engine: GenerationEngine,
        reader: RowReader,
        rows: ReadRows,
        write: WriteAnswer,
        *,
        kinds: Sequence[RequestKind],
        duplicates: LineSet | AbstractSet[int] = frozenset(),
        raw: bool = False,
        flush: Callable[[], None] = lambda: None,
    ) -> None:
        self.stopping = False
        self._engine = engine
        self._reader = reader
        self._rows = rows
        self._write = write
        self._kinds = kinds
        self._duplicates = duplicates
        self._raw = raw
        self._flush = flush
        # By position in the engine's batch.
        self._running: dict[int, tuple[int, JsonObject]] = {}

    @property
    def running(self) -> int:
        """Number of rows being generated."""
        return len(self._running)

    def check(self) -> None:
        """Raise `SetupError` if the engine cannot run this kind of batch. Loads no weights."""
        for kind in self._kinds:
            self._start(kind)

    def run(self) -> None:
        """Generate all rows. Raises what the engine and `write` raise."""
        for kind in self._kinds:
            self._running.clear()
            for index, result in self._start(kind):
                line, row = self._running.pop(index)
                self._answer(line, row, result)
                if not self._engine.in_windows:
                    self._flush()
            self._flush()

    def _start(self, kind: RequestKind) -> Iterator[tuple[int, GenerationResult]]:
        requests, options = self._read(kind), self._reader.options
        match kind:
            case "embed":
                return self._engine.iterate_embeddings(cast("Iterator[EmbeddingRequest]", requests))
            case "vlm":
                with_images = cast("Iterator[VlmGenerationRequest]", requests)
                return self._engine.iterate_vlm_batch(with_images, options)
        texts = cast("Iterator[TextGenerationRequest]", requests)
        return self._engine.iterate_text_batch(texts, options)

    def _read(self, kind: RequestKind) -> Iterator[TextGenerationRequest | EmbeddingRequest]:
        """Yield the requests of one kind; write an error for rows without a valid request."""
        read = self._reader.read_embedding if kind == "embed" else self._reader.read
        index = 0
        for line, row in self._rows():
            self._flush()
            if self.stopping:
                return
            if kind != "embed" and has_image(row) is not (kind == "vlm"):
                continue
            try:
                self._check_id(line)
                request = read(row, line)
            except Exception as error:  # noqa: BLE001 - a row holds anything
                self._fail(line, row, find_row_error(error, "request", "its reader"))
                continue
            self._running[index] = line, row
            index += 1
            yield request

    def _check_id(self, line: int) -> None:
        if line in self._duplicates:
            message = "the row's id belongs to an earlier row of the file; give each its own."
            raise RowFailure("duplicate_id", message)

    def _fail(self, line: int, row: JsonObject, error: RowError) -> None:
        backend = self._engine.config.backend
        self._answer(line, row, GenerationResult(id="", index=0, backend=backend, error=error))

    def _answer(self, line: int, row: JsonObject, result: GenerationResult) -> None:
        model = self._reader.find_adapter(row) or self._reader.models[0]
        self._write(line, build_answer(row, line, result, model=model, raw=self._raw), result)
