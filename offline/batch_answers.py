"""Converts a row's result to a line of the output.

The answer has its row's form: OpenAI's batch output for a row with a `body`, else the row itself
with a field `response`. Equal results give equal lines, without times or random ids.
"""

from __future__ import annotations

import msgspec

from ..base.json_types import JsonObject
from .batch_file import RESPONSE
from .batch_output import build_id
from .contracts import GeneratedChoice, GenerationResult, ParsedMessage, RowError

# HTTP status by kind of failure; 400 for all others.
STATUS = {"generation": 500, "plugin": 500, "no_recording": 404}
# Fields of a choice, in the order of the output.
CHOICE_FIELDS = ("text", "finish_reason", "stop_reason", "logprobs", "message")
RAW_FIELDS = ("raw_text", "token_ids")

_encode = msgspec.json.Encoder().encode


def build_answer(
    row: JsonObject, line: int, result: GenerationResult, *, model: str, raw: bool = False
) -> bytes:
    """Return the line for a row's result, without a line break.

    row: as it was read from line `line` of the input. model: its name in OpenAI's form.
    raw: whether the answers include `raw_text` and `token_ids`.
    """
    answer_id = build_id(line)
    if "body" in row:
        return _encode(
            {
                "id": answer_id,
                "custom_id": row["custom_id"],
                "response": _build_response(answer_id, result, model, raw=raw),
                "error": _build_error(result.error),
            }
        )
    return _encode({**row, RESPONSE: _build_plain(answer_id, result, raw=raw)})


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
    answer_id: str, result: GenerationResult, model: str, *, raw: bool
) -> JsonObject:
    """Return the `response` of OpenAI's batch output."""
    if result.error is not None:
        status, body = STATUS.get(result.error.kind, 400), {"error": _build_error(result.error)}
    else:
        status, body = 200, _build_completion(answer_id, result, model, raw=raw)
    return {"status_code": status, "request_id": answer_id, "body": body}


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
