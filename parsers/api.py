"""`stream_parser` builds a parser outside the worker, for tests, tools and offline use."""

from __future__ import annotations

import functools
import importlib
import importlib.util
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Literal

from ..base.engines import has_engine, load_native_parsers
from ..base.errors import SetupError
from .base import MalformedCalls, ParserFactory, ParserNames, ParserRequest, StreamParser
from .linear_parsers import Vocabulary
from .parser_lookup import Kind, linear_parsers, uses_native
from .response_template import describing_name

Engine = Literal["vllm", "sglang", "trtllm"]
# Package of each engine and class of its parsers, in order of preference. Importing one engine's
# parsers must not import another engine.
NATIVE: dict[Engine, tuple[str, str]] = {
    "vllm": ("vllm", "VllmParsers"),
    "sglang": ("sglang", "SglangParsers"),
    "trtllm": ("tensorrt_llm", "TrtllmParsers"),
}


def stream_parser(  # noqa: PLR0913 - keywords with defaults
    *,
    tool_call_parser: str | None = None,
    reasoning_parser: str | None = None,
    tools: Iterable[Mapping[str, object]] = (),
    kind: Kind = "auto",
    engine: Engine | None = None,
    vocabulary: Vocabulary | None = None,
    tokenizer: object = None,
    prompt_token_ids: Sequence[int] = (),
    chat_template_kwargs: Mapping[str, object] | None = None,
    malformed_calls: MalformedCalls = "open",
) -> StreamParser:
    """Build a parser for the output of one choice, as the worker does.

        parser = stream_parser(tool_call_parser="hermes", reasoning_parser="qwen3", tools=tools)
        events = parser.feed("text") + parser.finish()

    tools: OpenAI tool definitions; without tools, calls are not parsed.
    vocabulary: for linear parsers, the tokens that may be markers; without it all markers are
        found as text.
    engine: the engine whose native parsers to use; None for the first installed one of vLLM,
        SGLang and TensorRT-LLM ("trtllm").
    tokenizer: the engine's tokenizer of the model, which native parsers need.
    prompt_token_ids: the prompt, whose end may have opened the reasoning.
    malformed_calls: "open" or "repair", as the worker's --postprocess-malformed-calls.
    Raises `UnknownParserError` for an unknown name, and `SetupError` for a native parser without
    a tokenizer or without its engine.
    """
    request = ParserRequest(
        tools=[dict(tool) for tool in tools],
        tool_choice="auto" if tools else "none",
        chat_template_kwargs=dict(chat_template_kwargs or {}),
        malformed_calls=malformed_calls,
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


def native_parsers(
    engine: Engine | None, tokenizer: object, names: ParserNames, model_config: object = None
) -> ParserFactory:
    """Return the parsers of an engine; None for the first one installed. May take seconds.

    model_config: vLLM's, which some of its parsers read.
    Raises `SetupError` if the engine is not installed, or lacks what its parsers need, and for a
    checkpoint's description outside the main thread.
    """
    if describing_name(names):
        described: ParserFactory = load_native_parsers("transformers").limited_parsers(
            tokenizer, names
        )
        return described
    installed = list_installed()
    wanted = engine or next(iter(installed), None)
    if wanted not in installed:
        raise SetupError(
            f"the native parsers of {wanted or ' or '.join(NATIVE)} are part of that engine, "
            f"which is not installed (installed: {', '.join(installed) or 'none'}): "
            "install it, or choose kind='linear'."
        )
    build = getattr(load_native_parsers(wanted), NATIVE[wanted][1])
    more = () if model_config is None else (model_config,)
    parsers: ParserFactory = build(tokenizer, names, *more)
    return parsers


def list_installed() -> list[Engine]:
    """Return the installed engines with native parsers, in order of preference."""
    return [
        engine
        for engine, (package, _) in NATIVE.items()
        if has_engine(engine) and importlib.util.find_spec(package)
    ]


def native_names(kind: Kind, engine: Engine | None) -> Callable[[str], Collection[str]]:
    """Return a function that lists the names that `native_parsers` knows for a flag.

    It lists none unless `kind` is "native", and none of an engine that is not installed.
    """
    return functools.partial(_list_names, engine) if kind == "native" else lambda _: []


def _list_names(engine: Engine | None, flag: str) -> Collection[str]:
    wanted = [each for each in list_installed() if engine in (None, each)][:1]
    return [name for each in wanted for name in load_native_parsers(each).known_names(flag)]
