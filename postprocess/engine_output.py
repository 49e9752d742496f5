"""Dynamo's engine outputs (`LLMEngineOutput`, a dict in Python) in our own types.

A worker's handler yields them, and they come over the wire to the frontend, where Dynamo has
written them anew: of an error it makes `{"error": message}`, whatever form the worker gave it
(`"error"`, `"error: message"` or that one), and of `"abort"` it makes `"cancelled"`.
"""

from __future__ import annotations

import reprlib
from typing import Annotated

import msgspec

from ..base.errors import ProtocolError
from ..base.json_types import JsonObject
from .messages import U32, Chunk, EngineLogprob

# OpenAI's words for the engines'. An abort ends the text like a limit does. "timeout" is
# TensorRT-LLM's; "unknown" is Dynamo's word where that engine gives no reason.
FINISH_REASONS = {
    "eos": "stop",
    "unknown": "stop",
    "cancelled": "length",
    "abort": "length",
    "timeout": "length",
}
ABORTS = ("cancelled", "abort")
# Of an error's text, so that no log line or answer repeats a message of megabytes.
MAX_ERROR = 4096

# What most outputs have, and nothing else. A `Chunk` gives them the same names.
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
    """Return the output as a chunk, its finish_reason in OpenAI's words.

    Raises `ProtocolError` for an output that is not of Dynamo's form.
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
    """Return the error if this output says that generation failed, else None.

    Dynamo's workers put it into the finish_reason, as a text or as `{"error": message}`, or into
    an output of another form.
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
