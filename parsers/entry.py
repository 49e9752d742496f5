"""The parsers by themselves: for tests, tools and offline use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .base import ParserRequest, StreamParser
from .errors import SetupError
from .linear import Vocabulary
from .registry import Kind, linear_parsers, uses_native


def stream_parser(
    *,
    tool_call_parser: str | None = None,
    reasoning_parser: str | None = None,
    tools: Iterable[Mapping[str, Any]] = (),
    kind: Kind = "auto",
    vocabulary: Vocabulary | None = None,
    tokenizer: Any = None,
    prompt_token_ids: Sequence[int] = (),
    chat_template_kwargs: Mapping[str, Any] | None = None,
) -> StreamParser:
    """Return a parser for the output of one choice, as the worker would.

        parser = stream_parser(tool_call_parser="hermes", reasoning_parser="qwen3", tools=tools)
        events = parser.feed("text") + parser.finish()

    tools: OpenAI tool definitions; without any, calls are not parsed.
    vocabulary: the linear parsers' markers that are tokens; without it they are found as text.
    tokenizer: vLLM's tokenizer of the model; the native parsers need it.
    prompt_token_ids: they say whether reasoning is open already.
    Raises `UnknownParserError` for a name that is not known, and `SetupError` for
    a native parser without a tokenizer.
    """
    request = ParserRequest(
        tools=[dict(tool) for tool in tools],
        tool_choice="auto" if tools else "none",
        chat_template_kwargs=dict(chat_template_kwargs or {}),
    )
    if not uses_native(kind, tool_call_parser, reasoning_parser):
        parsers = linear_parsers(tool_call_parser, reasoning_parser, vocabulary or Vocabulary())
        return parsers(request, prompt_token_ids)
    if tokenizer is None:
        raise SetupError("the native parsers read token ids: pass `tokenizer`, or choose kind='linear'.")
    from .native.vllm import VllmParsers

    return VllmParsers(tokenizer, tool_call_parser, reasoning_parser)(request, prompt_token_ids)
