"""Renders conversations to prompts, identically for every back end.

Batch jobs want answers without thoughts, so `enable_thinking=False` is tried first, and omitted if
the template rejects it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from ..base.errors import RequestError
from ..base.json_types import JsonObject
from .contracts import GenerationOptions, TextGenerationRequest

logger = logging.getLogger(__name__)

ROLES = ("system", "developer", "user", "assistant", "tool")
THINKING = "enable_thinking"


class Render(Protocol):
    """Renders a conversation. Raises `RequestError` if the template rejects it."""

    def __call__(
        self,
        messages: list[JsonObject],
        tools: list[JsonObject] | None,
        **template_kwargs: Any,
    ) -> str:
        """Return the text of the prompt."""
        ...


def render_conversation(
    render: Render, request: TextGenerationRequest, options: GenerationOptions
) -> str:
    """Return the prompt's text. Raises `RequestError`."""
    messages = check_messages(request.messages)
    tools = list(request.tools) if request.tools else None
    kwargs = dict(options.chat_template_kwargs)
    if THINKING in kwargs or options.reasoning_parser:
        return render(messages, tools, **kwargs)
    try:
        return render(messages, tools, **kwargs, enable_thinking=False)
    except RequestError:
        # If the template rejects the conversation itself, this raises again.
        text = render(messages, tools, **kwargs)
    logger.info("the chat template rejects %s=False; rendered without it", THINKING)
    return text


def check_messages(messages: object) -> list[JsonObject]:
    """Return the messages. Raises `RequestError` if they are not a valid conversation."""
    if not isinstance(messages, Sequence) or isinstance(messages, str | bytes) or not messages:
        raise RequestError.wrong("messages", messages, "a list of at least one message")
    for position, message in enumerate(messages):
        where = f"messages[{position}]"
        if not isinstance(message, Mapping):
            raise RequestError.wrong(where, message, "an object with role and content")
        if message.get("role") not in ROLES:
            raise RequestError.wrong(
                f"{where}.role", message.get("role"), f"one of {', '.join(ROLES)}"
            )
        content = message.get("content")
        if not isinstance(content, str | list | None):
            raise RequestError.wrong(f"{where}.content", content, "a string or a list of parts")
        if content is None and message["role"] != "assistant":
            raise RequestError.wrong(f"{where}.content", content, "a string or a list of parts")
        _check_calls(where, message.get("tool_calls"))
    return [dict(message) for message in messages]


def _check_calls(where: str, calls: object) -> None:
    if calls is None:
        return
    if not isinstance(calls, list):
        raise RequestError.wrong(f"{where}.tool_calls", calls, "a list of calls")
    for number, call in enumerate(calls):
        function = call.get("function") if isinstance(call, Mapping) else None
        if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
            raise RequestError.wrong(
                f"{where}.tool_calls[{number}]", call, "an object with a function that has a name"
            )
