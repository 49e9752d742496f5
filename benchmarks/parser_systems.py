"""The parsers that `parsers` compares, with one interface: ours, vLLM's and SGLang's."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

from backedge.engines.vllm.parsers import VllmParsers
from backedge.parsers.base import ParserNames, ParserRequest
from backedge.parsers.events import Event, ToolCallArguments, ToolCallStarted
from backedge.parsers.parser_lookup import linear_parsers
from backedge.tokenization.detokenizer import read_vocabulary
from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
from vllm.parser import ParserManager
from vllm.tool_parsers import ToolParserManager

from .samples.sample import Sample

# SGLang's names that differ from all of a format's names in more than - and _.
SGLANG_NAMES = {
    "hy_v3": "hunyuan",
    "llama3_json": "llama3",
    "muse_glimmer": "muse",
    "openai": "gpt-oss",
}


@dataclass(frozen=True)
class Family:
    """One syntax that a linear format reads.

    name: the sample's, which begins with vLLM's name of the parser.
    format_names: the format's name, then its aliases.
    """

    name: str
    format_names: tuple[str, ...]
    sample: Sample
    tokenizer: Any
    prompt_token_ids: list[int]

    @property
    def request(self) -> ParserRequest:
        """A request that the sample answers."""
        return ParserRequest(
            tools=list(self.sample.tools),
            tool_choice="auto",
            chat_template_kwargs=self.sample.chat_template_kwargs,
        )

    @property
    def names(self) -> list[str]:
        """The parser's names, the sample's name first."""
        return [self.name.split()[0], *self.format_names]


@dataclass(frozen=True)
class Call:
    """A part of a tool call in one result: its name, or a piece of its arguments."""

    name: str | None
    arguments: str | None


@dataclass(frozen=True)
class Stream:
    """One stream that is parsed.

    feed, finish: take one token, its text and its id in a list; the result is the parser's
        own.
    calls: the parts of tool calls in such a result.
    rest: arguments that the system's server adds at the end.
    """

    feed: Callable[[str, list[int]], Any]
    finish: Callable[[str, list[int]], Any]
    calls: Callable[[Any], Iterator[Call]]
    rest: Callable[[], str] = str


@dataclass(frozen=True)
class Parser:
    """One system's parser of one family.

    shows_special_tokens: whether the parser wants the text of special tokens.
    stream: returns a new stream.
    """

    shows_special_tokens: bool
    stream: Callable[[], Stream]


class MissingError(Exception):
    """The system has no parser of a family, or is not installed."""


def build_ours(family: Family) -> Parser:
    """Return our linear parser."""
    names = ParserNames(family.format_names[0])
    parsers = linear_parsers(names, read_vocabulary(family.tokenizer))

    def stream() -> Stream:
        parser = parsers(family.request, family.prompt_token_ids)
        return Stream(parser.feed, parser.finish, calls_in_events)

    return Parser(parsers.shows_special_tokens(family.request), stream)


def calls_in_events(events: list[Event]) -> Iterator[Call]:
    """Yield the parts of calls in our events."""
    for event in events:
        if isinstance(event, ToolCallStarted):
            yield Call(event.name, None)
        elif isinstance(event, ToolCallArguments):
            yield Call(None, event.text)


def build_vllm(family: Family) -> Parser:
    """Return vLLM's streaming parser, whose `parse_delta` is called as vLLM's server does."""
    name, sample, asked = family.names[0], family.sample, family.request
    if name not in ToolParserManager.list_registered():
        raise MissingError("no parser")
    config = SimpleNamespace(hf_config=SimpleNamespace(model_type=sample.architecture))
    parsers = VllmParsers(family.tokenizer, ParserNames(name), config)
    parser_class = ParserManager.get_parser(
        tool_parser_name=name,
        reasoning_parser_name=None,
        enable_auto_tools=True,
        is_harmony=sample.architecture == "gpt_oss",
    )
    request = ChatCompletionRequest(
        messages=[],
        tools=asked.tools,
        tool_choice="auto",
        chat_template_kwargs=asked.chat_template_kwargs,
    )

    def stream() -> Stream:
        parse = parser_class(
            family.tokenizer,
            request.tools,
            chat_template_kwargs=asked.chat_template_kwargs,
            model_config=config,
        ).parse_delta
        prompt = family.prompt_token_ids
        return Stream(
            lambda text, token_ids: parse(text, token_ids, request, prompt, finished=False),
            lambda text, token_ids: parse(text, token_ids, request, prompt, finished=True),
            calls_in_message,
        )

    return Parser(parsers.shows_special_tokens(asked), stream)


def calls_in_message(message: Any) -> Iterator[Call]:
    """Yield the parts of calls in a delta of vLLM's."""
    for call in message.tool_calls or () if message is not None else ():
        if call.function is not None:
            yield Call(call.function.name, call.function.arguments)


def build_sglang(family: Family) -> Parser:
    """Return SGLang's detector."""
    if find_spec("sglang") is None:
        raise MissingError("not installed")
    module = import_module("sglang.srt.function_call.function_call_parser")
    name = find_engine_name(family.names, module.FunctionCallParser.ToolCallParserEnum)
    if name is None:
        raise MissingError("no parser")
    tool_class = import_module("sglang.srt.entrypoints.openai.protocol").Tool
    tools = [tool_class.model_validate(tool) for tool in family.sample.tools]

    def stream() -> Stream:
        parser = module.FunctionCallParser(tools, name)
        parse = parser.parse_stream_chunk

        def finish(text: str, _: list[int]) -> Any:
            return parse(text)[1] + parser.parse_stream_end()[1]

        return Stream(
            lambda text, _: parse(text)[1],
            finish,
            lambda items: (Call(item.name, item.parameters) for item in items),
            lambda: _unstreamed(parser.detector),
        )

    return Parser(shows_special_tokens=True, stream=stream)


def _unstreamed(detector: Any) -> str:
    """Return the arguments that SGLang's server adds when the stream ends.

    Source: `serving_chat._check_for_unstreamed_tool_args`.
    """
    parsed = getattr(detector, "prev_tool_call_arr", None) or []
    streamed = getattr(detector, "streamed_args_for_tool", None) or []
    if not parsed or len(parsed) > len(streamed):
        return ""
    arguments, sent = parsed[-1].get("arguments", {}), streamed[len(parsed) - 1]
    expected = (
        arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    )
    return expected[len(sent) :] if expected.startswith(sent) else ""


def find_engine_name(names: Iterable[str], known: Iterable[str]) -> str | None:
    """Return the first of a format's names that an engine has; None if it has none.

    known: the engine's own names.
    """
    by_letters = {_letters(name): name for name in known}
    spelled = (each for name in names for each in (name, SGLANG_NAMES.get(name, name)))
    return next((by_letters[key] for key in map(_letters, spelled) if key in by_letters), None)


def _letters(name: str) -> str:
    """Return `name` without the signs between its words, in which engines differ."""
    return name.replace("-", "").replace("_", "")


SYSTEMS: dict[str, Callable[[Family], Parser]] = {
    "ours": build_ours,
    "vllm": build_vllm,
    "sglang": build_sglang,
}
"""By name; each raises `MissingError`, or any error of the system's."""
