"""Checks a request before the engine and post-processing see it, and rejects a wrong one.

The frontend checks each request and names the client's field. But anyone with access to the
request plane can send one, and a number that is passed on unchecked can end the engine: a stop
token beyond the vocabulary is an index beyond the logits. The engines check prompts themselves.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sized
from http import HTTPStatus

from ..base import limits
from ..base.errors import PoolAbsentError, RequestError
from ..base.json_types import JsonObject
from ..base.log import get_logger
from ..guided.guided_request import check_guided_decoding
from ..postprocess.messages import KEY, PostprocessParams
from ..postprocess.stop_tokens import STOP_TOKENS

logger = get_logger(__name__)

_MAX_I64 = (1 << 63) - 1
_MAX_U32 = (1 << 32) - 1

Range = tuple[int, int]
# Numbers in Dynamo's `PreprocessedRequest` by containing object, with their ranges.
_NUMBERS: dict[str, dict[str, Range]] = {
    "stop_conditions": {
        "max_tokens": (0, _MAX_U32),
        "min_tokens": (0, _MAX_U32),
        "max_thinking_tokens": (0, _MAX_U32),
    },
    "sampling_options": {
        "n": (1, limits.MAX_CHOICES),
        "top_k": (-1, _MAX_U32),
        "seed": (-_MAX_I64 - 1, _MAX_I64),
    },
    "output_options": {"logprobs": (0, _MAX_U32), "prompt_logprobs": (0, _MAX_U32)},
}
# Those of the model's own files; `STOP_TOKENS` are the client's.
_HIDDEN_STOP_TOKENS = "stop_token_ids_hidden"


def check_engine_fields(request: JsonObject, vocabulary_size: int | None) -> None:
    """Raise `RequestError` for a number or token id that the engine must not get.

    request: Dynamo's `PreprocessedRequest`. vocabulary_size: the engine's; None if unknown.
    """
    for name, ranges in _NUMBERS.items():
        fields = _read_object(request, name)
        for field, allowed in ranges.items():
            if fields.get(field) is not None:
                _check_number(f"{name}.{field}", fields[field], allowed)
    sampling = _read_object(request, "sampling_options")
    # No engine ranks answers; left alone, the client would get any `n` of them.
    if (best_of := sampling.get("best_of")) is not None and best_of != (sampling.get("n") or 1):
        raise RequestError.wrong("best_of", best_of, "left out, or equal to `n`")
    stops = _read_object(request, "stop_conditions")
    for field in STOP_TOKENS:
        _check_token_ids(f"stop_conditions.{field}", stops.get(field), vocabulary_size)
    # A model's files may name tokens that the engine does not have. They are harmless unless the
    # engine has to suppress them.
    own_size = vocabulary_size if stops.get("min_tokens") else None
    hidden = stops.get(_HIDDEN_STOP_TOKENS)
    _check_token_ids(f"stop_conditions.{_HIDDEN_STOP_TOKENS}", hidden, own_size)
    _check_token_ids("eos_token_ids", request.get("eos_token_ids"), own_size)
    if KEY not in _read_object(request, "extra_args"):
        _check_foreign_grammar(request)


def _check_foreign_grammar(request: JsonObject) -> None:
    """Raise `RequestError` for a grammar that would hold up the engine.

    Backedge's frontends have checked theirs, and name the client's field.
    """
    guided = _read_object(request, "sampling_options").get("guided_decoding")
    if isinstance(guided, dict):
        check_guided_decoding(guided)


def check_params(params: PostprocessParams, prompt_and_resumed: int) -> None:
    """Raise `RequestError` for parameters that post-processing must not get.

    prompt_and_resumed: number of the request's token ids, including those of a worker that
        died.
    """
    parser = params.parser
    for field, number, allowed in (
        ("n", params.n, (1, limits.MAX_CHOICES)),
        ("prompt_length", params.prompt_length, (0, prompt_and_resumed)),
        ("min_tokens", params.min_tokens, (0, _MAX_U32)),
        ("created", params.created, (0, _MAX_I64)),
        ("logprobs", params.logprobs or 0, (0, limits.MAX_WORKER_LOGPROBS)),
        ("parser.history_tool_calls", parser.history_tool_calls, (0, limits.MAX_HISTORY_CALLS)),
    ):
        _check_number(f"{KEY}.{field}", number, allowed)
    _check_length("stop", params.stop, limits.MAX_STOPS, "strings")
    if not all(params.stop):
        raise RequestError(f"{KEY}.stop", "must not contain an empty string")
    _check_length("stop", "".join(params.stop), limits.MAX_STOP_CHARACTERS, "characters")
    _check_token_ids(f"{KEY}.stop_token_ids", params.stop_token_ids, None)
    _check_length("parser.tools", parser.tools, limits.MAX_TOOLS, "tools")
    _check_length("response_id", params.response_id, limits.MAX_ID, "characters")
    _check_length("model", params.model, limits.MAX_ID, "characters")


def _read_object(request: JsonObject, name: str) -> JsonObject:
    found = request.get(name) or {}
    if not isinstance(found, dict):
        raise RequestError.wrong(name, found, "an object")
    return found


def _check_number(field: str, value: object, allowed: Range) -> None:
    low, high = allowed
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise RequestError.wrong(field, value, f"an integer from {low} to {high}")


def _check_token_ids(field: str, token_ids: object, vocabulary_size: int | None) -> None:
    if token_ids is None:
        return
    if not isinstance(token_ids, list):
        raise RequestError.wrong(field, token_ids, "a list of token ids")
    if len(token_ids) > limits.MAX_STOP_TOKEN_IDS:
        raise RequestError.too_many(field, len(token_ids), "token ids", limits.MAX_STOP_TOKEN_IDS)
    allowed = (0, (_MAX_U32 if vocabulary_size is None else vocabulary_size - 1))
    for position, token_id in enumerate(token_ids):
        _check_number(f"{field}[{position}]", token_id, allowed)


def _check_length(field: str, value: Sized, longest: int, unit: str) -> None:
    if len(value) > longest:
        raise RequestError.too_many(f"{KEY}.{field}", len(value), unit, longest)


async def refuse(error: Exception) -> AsyncGenerator[JsonObject, None]:
    """Raise Dynamo's InvalidArgument (HTTP 400), as an engine that rejects a request does.

    A generator, because Dynamo treats an exception before the first output is requested as the
    death of the worker.
    """
    from dynamo.llm.exceptions import InvalidArgument  # late: processes of the pool need no Dynamo

    logger.warning("a request is rejected: %s", error)
    raise InvalidArgument(str(error)) from None
    yield {}


def show_refusal(error: Exception) -> Exception:
    """Return an InvalidArgument for a handler's HttpError 400, most other errors unchanged.

    A `PoolAbsentError` becomes an EngineShutdown, with which Dynamo moves the request.
    Dynamo shows clients a 400's text only if it is an InvalidArgument. For requests that the
    engine rejects, its vLLM handlers raise that in 1.6 but HttpError in 1.7. It has no traceback.
    """
    from dynamo.llm.exceptions import EngineShutdown, HttpError, InvalidArgument

    if isinstance(error, PoolAbsentError):
        error = EngineShutdown(str(error))
    if isinstance(error, HttpError) and error.code == HTTPStatus.BAD_REQUEST:
        error = InvalidArgument(error.message)
    if isinstance(error, InvalidArgument):
        # Dynamo prints the traceback, and no reader needs the place in an engine.
        error = error.with_traceback(None)
        error.__cause__, error.__suppress_context__ = None, True
    return error
