"""Rejects invalid requests before any GPU work, with the JSON path of the wrong field.

Dynamo's HTTP layer and `chat_request` have checked the types. These checks are missing in Dynamo
and the engines, or fail there without naming the field. They run in the event loop, so they must
take microseconds; `check_schemas` checks schemas in a thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from ...base import limits
from ...base.errors import RequestError
from ...base.ranges import INT_32, RANGES, Range
from ...guided.guided_request import check_constraints
from ...templates.auto_parsers import THINKING_FLAGS
from ...templates.chat_template import RESERVED, TEXT_PARTS
from .chat_request import ChatRequest, Message, ToolCall


def check_ranges(request: ChatRequest, vocabulary_size: int | None) -> None:
    """Raise `RequestError` for the first number out of its range.

    vocabulary_size: of the model, in tokens; None if unknown.
    """
    for field, allowed in RANGES.items():
        _check(field, getattr(request, field), allowed)
    if request.nvext is not None:
        budget = RANGES["thinking_token_budget"]
        _check("nvext.max_thinking_tokens", request.nvext.max_thinking_tokens, budget)
    tokens = vocabulary_size or INT_32 + 1
    # vLLM takes -1 for all tokens of the vocabulary.
    _check("prompt_logprobs", request.prompt_logprobs, Range(-1, tokens))
    _check_stop_token_ids(request, tokens)


def _check(field: str, value: float | None, allowed: Range) -> None:
    if value is not None and not allowed.includes(value):
        raise RequestError.wrong(field, value, str(allowed))


def _check_stop_token_ids(request: ChatRequest, tokens: int) -> None:
    token_ids = request.stop_token_ids or []
    field = request.written_name("stop_token_ids")
    if len(token_ids) > limits.MAX_STOP_TOKEN_IDS:
        raise RequestError.too_many(field, len(token_ids), "token ids", limits.MAX_STOP_TOKEN_IDS)
    for position, token_id in enumerate(token_ids):
        if not 0 <= token_id < tokens:
            allowed = f"a token id of the model, from 0 to {tokens - 1:,}"
            raise RequestError.wrong(f"{field}[{position}]", token_id, allowed)


# Types of content parts with media, in the form in which Dynamo passes them to workers.
MEDIA_PARTS = ("image_url", "video_url", "audio_url")


UNSUPPORTED = {
    "logit_bias": "Dynamo's workers do not pass it to the engine",
    "chat_template": "the model's own template makes the prompt",
}


class ContentPart(msgspec.Struct):
    """A part of a message's content. The fields of `TEXT_PARTS` and `MEDIA_PARTS`, unchecked."""

    type: str
    text: object = None
    refusal: object = None
    thinking: object = None
    image_url: object = None
    video_url: object = None
    audio_url: object = None
    uuid: object = None


def check_request(request: ChatRequest, vocabulary_size: int | None = None) -> None:
    """Raise `RequestError` for the first wrong field.

    vocabulary_size: of the model, in tokens; None if unknown.
    """
    for rule in RULES:
        rule(request)
    check_ranges(request, vocabulary_size)


def _check_unsupported(request: ChatRequest) -> None:
    for field, reason in UNSUPPORTED.items():
        if getattr(request, field):
            raise RequestError.unsupported(field, reason)


def _check_token_limits(request: ChatRequest) -> None:
    limit, least = request.max_output_tokens, request.min_tokens
    if least is not None and limit is not None and least > limit > 0:
        raise RequestError("min_tokens", f"is {least:,}, more than max_tokens, which is {limit:,}")


def _check_logprobs(request: ChatRequest) -> None:
    if request.top_logprobs and request.logprobs is not True:
        raise RequestError("top_logprobs", "requires `logprobs` to be true")


def _check_stream_options(request: ChatRequest) -> None:
    if request.stream_options is not None and request.stream is not True:
        raise RequestError("stream_options", "requires `stream` to be true")


def _check_stop_strings(request: ChatRequest) -> None:
    stops = [request.stop] if isinstance(request.stop, str) else request.stop or []
    for position, stop in enumerate(stops):
        if not isinstance(stop, str) or not stop:
            raise RequestError.wrong(f"stop[{position}]", stop, "a non-empty string")
    if len(stops) > limits.MAX_STOPS:
        raise RequestError.too_many("stop", len(stops), "strings", limits.MAX_STOPS)
    characters = sum(map(len, request.stop_strings))
    if characters > limits.MAX_STOP_CHARACTERS:
        raise RequestError.too_many("stop", characters, "characters", limits.MAX_STOP_CHARACTERS)


def _check_messages(request: ChatRequest) -> None:
    messages = request.messages
    parts = sum(
        _count(message.content) + _count(message.tool_calls) + _count(message.reasoning_content)
        for message in messages
    )
    if not messages:
        raise RequestError("messages", "must not be empty")
    if len(messages) + parts > limits.MAX_MESSAGES:
        unit = "messages, content parts, segments and tool calls"
        raise RequestError.too_many("messages", len(messages) + parts, unit, limits.MAX_MESSAGES)
    for position, message in enumerate(messages):
        _check_arguments(f"messages[{position}].tool_calls", message.tool_calls or ())
        if isinstance(message.content, str):
            continue
        if _is_empty(message):
            field = f"messages[{position}].content"
            without = " without tool_calls" if message.role == "assistant" else ""
            raise RequestError(field, f"must not be empty{without}")
        _check_content(f"messages[{position}].content", message.content)


def _check_arguments(field: str, calls: Iterable[ToolCall]) -> None:
    for position, call in enumerate(calls):
        arguments = call.function.arguments
        if isinstance(arguments, str) and len(arguments) > limits.MAX_ARGUMENTS:
            path = f"{field}[{position}].function.arguments"
            raise RequestError.too_many(path, len(arguments), "characters", limits.MAX_ARGUMENTS)


def _check_content(field: str, content: object) -> None:
    """Content that is not text must be a list of parts of the shape that chat templates read."""
    if content is None:
        return
    if not isinstance(content, list):
        raise RequestError.wrong(field, content, "a string or a list of content parts")
    for position, part in enumerate(content):
        if isinstance(part, str):
            continue
        try:
            decoded = msgspec.convert(part, ContentPart)
        except msgspec.ValidationError as error:
            allowed = "a content part, which is an object with a `type`"
            raise RequestError.wrong(f"{field}[{position}]", part, allowed) from error
        _check_part(f"{field}[{position}]", decoded)


def _check_part(field: str, part: ContentPart) -> None:
    if part.type in MEDIA_PARTS:
        media = getattr(part, part.type)
        found = (media["url"] if isinstance(media, dict) and "url" in media else None, part.uuid)
        if not any(isinstance(value, str) and value for value in found):
            raise RequestError.wrong(f"{field}.{part.type}", media, "an object with a `url`")
    if part.type in TEXT_PARTS:
        name = TEXT_PARTS[part.type]
        text = getattr(part, name)
        if not isinstance(text, str):
            raise RequestError.wrong(f"{field}.{name}", text, "a string")


def _count(items: object) -> int:
    return len(items) if isinstance(items, list) else 0


def _is_empty(message: Message) -> bool:
    return (
        message.content in (None, []) and not message.tool_calls and not message.reasoning_content
    )


def _check_template_arguments(request: ChatRequest) -> None:
    """Reject variables that would override rendering arguments, and too many."""
    for arguments in (request.chat_template_kwargs, request.chat_template_args):
        for name in sorted(RESERVED.intersection(arguments or ())):
            why = "a request must not set this variable of the chat template"
            raise RequestError.unsupported(f"chat_template_kwargs.{name}", why)
        for name in THINKING_FLAGS:
            # Parsers of vLLM look the value up in a table.
            if isinstance(value := (arguments or {}).get(name), list | dict):
                raise RequestError.wrong(f"chat_template_kwargs.{name}", value, "true or false")
        if not _has_at_most(arguments, limits.MAX_TEMPLATE_VALUES):
            why = f"has more than {limits.MAX_TEMPLATE_VALUES:,} values, nested ones included"
            raise RequestError("chat_template_kwargs", why)


def _has_at_most(value: object, limit: int) -> bool:
    """Whether `value` has at most this many nested values; it is walked no further."""
    waiting = [value]
    for _ in range(limit + 1):
        if not waiting:
            return True
        item = waiting.pop()
        if isinstance(item, dict | list):
            if len(waiting) + len(item) > limit:
                return False
            waiting.extend(item.values() if isinstance(item, dict) else item)
    return not waiting


RULES: tuple[Callable[[ChatRequest], None], ...] = (
    _check_unsupported,
    _check_messages,
    _check_token_limits,
    _check_logprobs,
    _check_stream_options,
    _check_stop_strings,
    check_constraints,
    _check_template_arguments,
)
