"""Digests of conversations, which are equal if a client has only written the same differently."""

from __future__ import annotations

import hashlib
from typing import Literal

import msgspec

from ...base.json_types import check_nesting, read_finite
from ..request.chat_request import CalledFunction, ChatRequest, Message

# The encoder writes integers of 64 bits.
MAX_INTEGER = 1 << 63
_encode = msgspec.json.Encoder(order="sorted").encode


def _read_number(text: str) -> float:
    """Read a number with a point or an exponent, so that 5.0 equals 5 as in JavaScript.

    Raises ValueError for a number that is infinite in double precision.
    """
    number = read_finite(text)
    return int(number) if number.is_integer() and abs(number) < MAX_INTEGER else number


_decode = msgspec.json.Decoder(float_hook=_read_number).decode


class _TextPart(msgspec.Struct, forbid_unknown_fields=True):
    """A part of a message's content."""

    text: str
    type: Literal["text"] = "text"


def digest_conversation(request: ChatRequest, scope: str | None) -> list[bytes]:
    """Return the digests of the empty conversation and of all messages up to each one.

    scope: of the tenant; None for a frontend of a single one.
    The conversation's name, the model and what else shapes a prompt are part of each digest.
    Raises ValueError and OverflowError for values that JSON cannot have.
    """
    options = [
        scope,
        request.model,
        request.raw["tools"] if request.tools else None,
        request.chat_template,
        request.chat_template_kwargs,
        request.chat_template_args,
        request.reasoning_effort,
        request.thinking,
        request.turns_conversation,
    ]
    digests = [_digest(b"", _encode(options))]
    for message in request.messages:
        digests.append(extend_digest(digests[-1], message))
    return digests


def extend_digest(digest: bytes, message: Message) -> bytes:
    """Return the digest of a conversation with one more message."""
    return _digest(digest, _encode([message.role, message.tool_call_id, describe(message)]))


def describe(message: Message, *, has_ids: bool = True) -> list[object]:
    """Return the parts of a message that a client must send back, without reasoning.

    has_ids: include the ids of calls.
    """
    content = _join_text(message.content)
    if message.role == "assistant" and isinstance(content, str):
        content = content.strip()
    calls = [
        [call.id if has_ids else None, call.function.name, read_arguments(call.function)]
        for call in message.tool_calls or ()
    ]
    return [content, message.name, calls]


def read_arguments(function: CalledFunction) -> object:
    """Return the arguments as JSON values; text that is no JSON stays text."""
    arguments = function.arguments
    try:
        text = arguments if isinstance(arguments, str) else _encode(arguments)
        return _decode(check_nesting(text))
    except (ValueError, OverflowError, msgspec.DecodeError):
        return arguments


def _join_text(content: object) -> object:
    """Return text in parts as one text; other content stays as it is."""
    try:
        parts = msgspec.convert(content, list[_TextPart])
    except msgspec.ValidationError:
        return "" if content is None else content
    return "".join(part.text for part in parts)


def _digest(before: bytes, text: bytes) -> bytes:
    return hashlib.blake2b(before + text, digest_size=32).digest()
