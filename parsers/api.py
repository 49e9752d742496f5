"""The parsers by themselves: for tests, tools and offline use."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from .base import ParserFactory, ParserNames, ParserRequest, StreamParser
from .errors import SetupError
from .linear_parsers import Vocabulary
from .parser_lookup import Kind, linear_parsers, uses_native

Engine = Literal["vllm", "sglang"]
# The first that is installed is taken. Importing one must not import the other.
NATIVE: dict[Engine, str] = {"vllm": "VllmParsers", "sglang": "SglangParsers"}


def stream_parser(  # noqa: PLR0913 - all by keyword, all with a default
    *,
    tool_call_parser: str | None = None,
    reasoning_parser: str | None = None,
    tools: Iterable[Mapping[str, Any]] = (),
    kind: Kind = "auto",
    engine: Engine | None = None,
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
    engine: whose native parsers; None for those of the engine that is installed, of vLLM if both are.
    tokenizer: the engine's tokenizer of the model; the native parsers need it.
    prompt_token_ids: they say whether reasoning is open already.
    Raises `UnknownParserError` for a name that is not known, and `SetupError` for
    a native parser without a tokenizer or without its engine.
    """
    request = ParserRequest(
        tools=[dict(tool) for tool in tools],
        tool_choice="auto" if tools else "none",
        chat_template_kwargs=dict(chat_template_kwargs or {}),
    )
    names = ParserNames(tool_call_parser, reasoning_parser)
    if not uses_native(kind, names):
        parsers = linear_parsers(names, vocabulary or Vocabulary())
        return parsers(request, prompt_token_ids)
    if tokenizer is None:
        raise SetupError(
            "the native parsers read token ids: pass `tokenizer`, or choose kind='linear'."
        )
    return native_parsers(engine, tokenizer, names)(request, prompt_token_ids)


def native_parsers(engine: Engine | None, tokenizer: Any, names: ParserNames) -> ParserFactory:
    """Return an engine's own parsers; see `stream_parser`."""
    installed = [known for known in NATIVE if importlib.util.find_spec(known) is not None]
    wanted = engine or next(iter(installed), None)
    if wanted not in installed:
        raise SetupError(
            f"the native parsers of {wanted or ' or '.join(NATIVE)} are part of that engine, which is not installed "
            f"(installed: {', '.join(installed) or 'none'}): install it, or choose kind='linear'."
        )
    factory = getattr(importlib.import_module(f".native.{wanted}", __package__), NATIVE[wanted])
    parsers: ParserFactory = factory(tokenizer, names)
    return parsers
