"""Chat requests, the tools in them, and the model for which they are preprocessed."""

from __future__ import annotations

from typing import Any

from backedge.frontend.request.chat_request import ChatRequest, decode_chat_request
from backedge.frontend.request.preprocessed_request import (
    Prompt,
    build_preprocessed_request,
    to_json_object,
)
from backedge.guided.call_policy import build_guided_decoding
from backedge.templates.chat_template import ModelPrompts

from tests.support import TINY_MODEL

FILES = ModelPrompts(TINY_MODEL)
PARAMETERS = {"type": "object", "properties": {"a": {"type": "integer"}}}
TOOL = {"type": "function", "function": {"name": "f", "parameters": PARAMETERS}}
NAMED = {"type": "function", "function": {"name": "f"}}


def raw_request(**fields: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": "hi"}], **fields}


def chat_request(**fields: Any) -> ChatRequest:
    return decode_chat_request(raw_request(**fields))


def preprocessed(
    fields: dict[str, Any], prompt: tuple[int, ...] = (1, 2, 3), context_length: int | None = 100
) -> dict[str, Any]:
    request = chat_request(**fields)
    made = Prompt(list(prompt), build_guided_decoding(request))
    return to_json_object(build_preprocessed_request(request, made, FILES, context_length))
