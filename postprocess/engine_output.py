"""Converts Dynamo's engine outputs (`LLMEngineOutput`, a dict in Python) into our own types.

A worker's handler yields them. On the way to the frontend Dynamo rewrites them: every form of
error that a worker may use (`"error"`, `"error: message"`, `{"error": message}`) becomes
`{"error": message}`, and `"abort"` becomes `"cancelled"`.
"""

from __future__ import annotations

import reprlib
from typing import Annotated

import msgspec

from ..base.errors import ProtocolError
from ..base.json_types import JsonObject
from ..base.limits import MAX_ERROR
from .messages import U32, Chunk, EngineLogprob

# OpenAI's names for the engines' finish reasons. An abort ends the text as a limit does.
# "timeout" comes from TensorRT-LLM; Dynamo says "unknown" if that engine gives no reason.
FINISH_REASONS = {
    "eos": "stop",
    "unknown": "stop",
    "cancelled": "length",
    "abort": "length",
    "timeout": "length",
}
ABORTS = ("cancelled", "abort")

# The fields of most outputs, with the same names as in `Chunk`.
PLAIN_FIELDS = frozenset(("index", "token_ids"))

_MAX_I64 = (1 << 63) - 1
_Count = Annotated[int, msgspec.Meta(ge=0, le=_MAX_I64)]
_StopReason = Annotated[int, msgspec.Meta(ge=-_MAX_I64, le=_MAX_I64)] | str | None


class _PromptTokens(msgspec.Struct, gc=False):
    cached_tokens: _Count | None = None


class _Usage(msgspec.Struct, gc=False):
    prompt_tokens: _Count | None = None
    prompt_tokens_details: _PromptTokens | None = None


_NO_DETAILS = _PromptTokens()
_NO_USAGE = _Usage()


class _EngineOutput(msgspec.Struct, gc=False):
    """The fields that post-processing reads, in the types that Dynamo gives them."""

    index: U32 | None = None
    token_ids: list[U32] | None = None
    finish_reason: str | None = None
    stop_reason: _StopReason = None
    log_probs: list[float] | None = None
    top_logprobs: list[list[EngineLogprob]] | None = None
    completion_usage: _Usage | None = None


def parse_engine_output(output: JsonObject) -> Chunk:
    """Convert an engine output to a chunk, with OpenAI's finish reasons.

    Raises `ProtocolError` if the output does not have Dynamo's form.
    """
    try:
        if output.keys() <= PLAIN_FIELDS and None not in output.values():
            return msgspec.convert(output, Chunk)
        read = msgspec.convert(output, _EngineOutput)
    except msgspec.ValidationError as error:
        raise ProtocolError(f"not an engine output: {error}") from error
    usage, reason = read.completion_usage or _NO_USAGE, read.finish_reason
    return Chunk(
        index=read.index or 0,
        token_ids=read.token_ids or [],
        finish_reason=FINISH_REASONS.get(reason, reason) if reason else None,
        stop_reason=read.stop_reason,
        logprobs=read.log_probs,
        top_logprobs=read.top_logprobs,
        prompt_tokens=usage.prompt_tokens,
        cached_tokens=(usage.prompt_tokens_details or _NO_DETAILS).cached_tokens,
    )


def engine_error(output: JsonObject) -> str | None:
    """Return the error if this output reports that generation failed, else None.

    Dynamo's workers report it in finish_reason, as text or as `{"error": message}`, or send an
    output of another form.
    """
    reason = output.get("finish_reason")
    if isinstance(reason, str):
        return reason[:MAX_ERROR] if reason.startswith("error") else None
    if isinstance(reason, dict):
        return f"error: {reason.get('error') or reprlib.repr(reason)}"[:MAX_ERROR]
    if "token_ids" not in output:
        found = output.get("message") or f"not an engine output: {reprlib.repr(output)}"
        return str(found)[:MAX_ERROR]
    return None
