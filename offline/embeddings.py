"""Embeddings as rows: OpenAI's `/v1/embeddings` in batch files, as `vllm run-batch` reads them.

A model is loaded for embeddings or for answers, so a batch has rows of one kind.
"""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from ..base.errors import RequestError
from ..base.json_types import JsonObject
from ..base.limits import MAX_EMBEDDED_INPUTS, MAX_HELD_INPUTS
from .contracts import EmbeddingRequest, EngineDiedError
from .inference_backend import Backend
from .preparation import Preparation
from .results import GenerationResult, RowError
from .rows import RowFailure, find_row_error

FIELDS = ("input", "model", "encoding_format", "user")
FORMATS = ("float", "base64")


def read_embedding(body: JsonObject, request_id: str) -> EmbeddingRequest:
    """Return the request in a row's body. Raises `RequestError`."""
    for name, value in body.items():
        if name not in FIELDS and value is not None:
            raise RequestError(f"body.{name}", "is not supported for embeddings; leave it out")
    if body.get("encoding_format", "float") not in FORMATS:
        allowed = " or ".join(FORMATS)
        raise RequestError.wrong("body.encoding_format", body["encoding_format"], allowed)
    inputs = _read_inputs(body.get("input"))
    if len(inputs) > MAX_EMBEDDED_INPUTS:
        raise RequestError.too_many("body.input", len(inputs), "inputs", MAX_EMBEDDED_INPUTS)
    return EmbeddingRequest(id=request_id, inputs=inputs)


def _read_inputs(given: object) -> list[str | list[int]]:
    """Return the inputs of a row. Raises `RequestError`."""
    inputs = [given] if isinstance(given, str) or _is_ids(given) else given
    if not isinstance(inputs, list) or not inputs:
        raise _wrong_input(given)
    if not all(isinstance(each, str) or _is_ids(each) for each in inputs):
        raise _wrong_input(given)
    return inputs


def _is_ids(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(type(each) is int for each in value)


def _wrong_input(given: object) -> RequestError:
    return RequestError.wrong("body.input", given, "a text, token ids, or a list of these")


@dataclass
class EmbeddingRow:
    """A request whose inputs are token ids. vectors: one for each input, when it is done."""

    index: int
    request_id: str
    inputs: list[list[int]] = field(default_factory=list)
    vectors: list[array[float]] = field(default_factory=list)
    error: RowError | None = None

    def result(self, backend: str) -> GenerationResult:
        """Return the result of the row, which must be done or have failed."""
        return GenerationResult(
            id=self.request_id,
            index=self.index,
            backend=backend,
            prompt_tokens=sum(map(len, self.inputs)),
            embeddings=[vector.tolist() for vector in self.vectors],
            error=self.error,
        )


def prepare_embeddings(
    prepare: Preparation, requests: Iterable[EmbeddingRequest]
) -> Iterator[EmbeddingRow]:
    """Tokenize the inputs of rows one by one; those that fail carry their error."""
    for index, request in enumerate(requests):
        row = EmbeddingRow(index, str(index) if request.id is None else request.id)
        try:
            row.inputs = [_encode_input(prepare, given) for given in request.inputs]
        except Exception as error:  # noqa: BLE001 - a tokenizer may raise anything
            row.error = find_row_error(error, "request", "its preparation")
        yield row


def _encode_input(prepare: Preparation, given: str | Sequence[int]) -> list[int]:
    text, size = prepare.text, prepare.vocabulary_size
    if isinstance(given, str):
        text.check_length(given, text.encode_plain)
        token_ids = text.encode_plain(given)
    else:
        token_ids = list(given)
    if not token_ids:
        raise RequestError.wrong("input", given, "a text with at least one token")
    for token_id in token_ids:
        # Another one would end a device, or an engine.
        if token_id < 0 or (size is not None and token_id >= size):
            last = "0 or more" if size is None else f"from 0 to {size - 1:,}"
            raise RequestError.wrong("input", token_id, f"token ids of the model, {last}")
    if text.context_length is not None and len(token_ids) > text.context_length:
        found = f"an input has {len(token_ids)} tokens; the model takes {text.context_length}"
        raise RowFailure("prompt_too_long", f"{found}. Shorten it.")
    return token_ids


def embed_rows(
    backend: Backend, rows: Iterable[EmbeddingRow]
) -> Generator[EmbeddingRow, None, None]:
    """Embed rows in blocks, each of which the back end embeds together."""
    block: list[EmbeddingRow] = []
    held = 0
    for row in rows:
        if row.error is not None:
            yield row
            continue
        block.append(row)
        held += len(row.inputs)
        if held >= MAX_HELD_INPUTS:
            yield from _embed(backend, block)
            block, held = [], 0
    yield from _embed(backend, block)


def _embed(backend: Backend, rows: list[EmbeddingRow]) -> list[EmbeddingRow]:
    """Embed rows together; in halves to find one that the engine refuses."""
    if not rows:
        return rows
    try:
        vectors = iter(backend.embed([token_ids for row in rows for token_ids in row.inputs]))
    except EngineDiedError:
        raise
    except Exception as error:  # noqa: BLE001 - it is one row's
        if len(rows) == 1:
            rows[0].error = find_row_error(error, "generation", backend.name)
            return rows
        half = len(rows) // 2
        return _embed(backend, rows[:half]) + _embed(backend, rows[half:])
    for row in rows:
        found = itertools.islice(vectors, len(row.inputs))
        row.vectors = [array("f", vector) for vector in found]
    return rows
