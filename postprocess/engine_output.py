"""Dynamo's engine outputs (`LLMEngineOutput`, a dict in Python) in our own types."""

from __future__ import annotations

import msgspec

from ..parsers.json_types import JsonObject
from .messages import Chunk, EngineLogprob

# OpenAI's words for the engines'. An abort ends the text like a limit does.
FINISH_REASONS = {"eos": "stop", "cancelled": "length"}
ALTERNATIVES = list[list[EngineLogprob]]


def parse_engine_output(output: JsonObject) -> Chunk:
    """Return the output as a chunk, its finish_reason in OpenAI's words.

    Raises `msgspec.ValidationError` for alternatives of tokens (`top_logprobs`) that are not of
    Dynamo's form.
    """
    usage = output.get("completion_usage") or {}
    reason = output.get("finish_reason")
    alternatives = output.get("top_logprobs")
    return Chunk(
        index=output.get("index") or 0,
        token_ids=output.get("token_ids") or [],
        finish_reason=FINISH_REASONS.get(reason, reason) if reason else None,
        stop_reason=output.get("stop_reason"),
        logprobs=output.get("log_probs"),
        top_logprobs=alternatives and msgspec.convert(alternatives, ALTERNATIVES),
        prompt_tokens=usage.get("prompt_tokens"),
        cached_tokens=(usage.get("prompt_tokens_details") or {}).get("cached_tokens"),
    )


def engine_error(output: JsonObject) -> str | None:
    """Return the error if this output says that generation failed, else None.

    Dynamo's workers put it into the finish_reason, or into an output of another form.
    """
    reason = output.get("finish_reason")
    if isinstance(reason, str) and reason.startswith("error"):
        return reason
    if "token_ids" not in output:
        return str(output.get("message") or f"not an engine output: {output}")
    return None
