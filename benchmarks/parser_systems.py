"""The parsers that `parsers` compares, with one interface: ours, vLLM's and SGLang's."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any, Protocol

from backedge.engines.vllm.parsers import VllmParsers
from backedge.parsers.base import ParserNames, ParserRequest
from backedge.parsers.events import Event, ToolCallArguments, ToolCallStarted
from backedge.parsers.parser_lookup import linear_parsers
from backedge.tokenization.detokenizer import read_vocabulary
from typing_extensions import override
from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
from vllm.parser import ParserManager
from vllm.tool_parsers import ToolParserManager

from .samples.sample import Sample

OURS, VLLM, SGLANG = "ours", "vllm", "sglang"
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


class Parser(Protocol):
    """One system's parser of one family.

    shows_special_tokens: whether the parser wants the text of special tokens.
    """

    shows_special_tokens: bool

    def stream(self) -> Stream:
        """Return a new stream."""
        ...


class System(Protocol):
    """Makes the parsers of one system.

    missing: why the system has no parsers here; "" if it has.
    """

    missing: str

    def parser(self, family: Family) -> Parser | None:
        """Return the parser of `family`, or None if the system has none.

        May raise any error of the system's.
        """
        ...


class _OurParser(Parser):
    def __init__(self, family: Family) -> None:
        self._family = family
        self._parsers = linear_parsers(
            ParserNames(family.format_names[0]), read_vocabulary(family.tokenizer)
        )
        self.shows_special_tokens = self._parsers.shows_special_tokens(family.request)

    @override
    def stream(self) -> Stream:
        parser = self._parsers(self._family.request, self._family.prompt_token_ids)
        return Stream(parser.feed, parser.finish, self._calls)

    @staticmethod
    def _calls(events: list[Event]) -> Iterator[Call]:
        for event in events:
            if isinstance(event, ToolCallStarted):
                yield Call(event.name, None)
            elif isinstance(event, ToolCallArguments):
                yield Call(None, event.text)


class Ours(System):
    """Backedge's linear parsers."""

    missing = ""

    @override
    def parser(self, family: Family) -> Parser | None:
        return _OurParser(family)


class _VllmParser(Parser):
    """Calls `parse_delta` as vLLM's server does, without our adapter."""

    def __init__(self, family: Family, name: str) -> None:
        sample = family.sample
        self._family = family
        self._model_config = SimpleNamespace(
            hf_config=SimpleNamespace(model_type=sample.architecture)
        )
        parsers = VllmParsers(family.tokenizer, ParserNames(name), self._model_config)
        self.shows_special_tokens = parsers.shows_special_tokens(family.request)
        self._class = ParserManager.get_parser(
            tool_parser_name=name,
            reasoning_parser_name=None,
            enable_auto_tools=True,
            is_harmony=sample.architecture == "gpt_oss",
        )

    @override
    def stream(self) -> Stream:
        family = self._family
        request = ChatCompletionRequest(
            messages=[],
            tools=family.request.tools,
            tool_choice="auto",
            chat_template_kwargs=family.request.chat_template_kwargs,
        )
        parser = self._class(
            family.tokenizer,
            request.tools,
            chat_template_kwargs=family.request.chat_template_kwargs,
            model_config=self._model_config,
        )
        parse, prompt = parser.parse_delta, family.prompt_token_ids
        return Stream(
            lambda text, token_ids: parse(text, token_ids, request, prompt, finished=False),
            lambda text, token_ids: parse(text, token_ids, request, prompt, finished=True),
            self._calls,
        )

    @staticmethod
    def _calls(message: Any) -> Iterator[Call]:
        for call in message.tool_calls or () if message is not None else ():
            if call.function is not None:
                yield Call(call.function.name, call.function.arguments)


class Vllm(System):
    """vLLM's streaming parsers."""

    missing = ""

    @override
    def parser(self, family: Family) -> Parser | None:
        name = family.names[0]
        return _VllmParser(family, name) if name in ToolParserManager.list_registered() else None


class _SglangParser(Parser):
    shows_special_tokens = True

    def __init__(self, family: Family, name: str) -> None:
        self._family = family
        self._name = name

    @override
    def stream(self) -> Stream:
        tool_class = import_module("sglang.srt.entrypoints.openai.protocol").Tool
        tools = [tool_class.model_validate(tool) for tool in self._family.sample.tools]
        parser = _function_call_parser()(tools, self._name)
        parse = parser.parse_stream_chunk

        def feed(text: str, _: list[int]) -> Any:
            return parse(text)[1]

        def finish(text: str, _: list[int]) -> Any:
            return parse(text)[1] + parser.parse_stream_end()[1]

        return Stream(feed, finish, self._calls, lambda: _unstreamed(parser.detector))

    @staticmethod
    def _calls(items: Any) -> Iterator[Call]:
        for item in items:
            yield Call(item.name, item.parameters)


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


class Sglang(System):
    """SGLang's detectors, if the package is installed."""

    def __init__(self) -> None:
        self.missing = "" if find_spec("sglang") is not None else "not installed"

    @override
    def parser(self, family: Family) -> Parser | None:
        name = find_engine_name(family.names, _function_call_parser().ToolCallParserEnum)
        return _SglangParser(family, name) if name is not None else None


def _function_call_parser() -> Any:
    return import_module("sglang.srt.function_call.function_call_parser").FunctionCallParser


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


def systems() -> dict[str, System]:
    """Return all systems by name."""
    return {OURS: Ours(), VLLM: Vllm(), SGLANG: Sglang()}
