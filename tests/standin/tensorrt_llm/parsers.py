"""Parsers of the form of TensorRT-LLM's, for Hermes' calls and for `<think>`."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pydantic

BEGIN, END = "<tool_call>", "</tool_call>"


class FunctionDefinition(pydantic.BaseModel):
    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None


class ChatCompletionToolsParam(pydantic.BaseModel):
    type: str = "function"
    function: FunctionDefinition


class ToolCallItem(pydantic.BaseModel):
    tool_index: int
    name: str | None = None
    parameters: str


class StreamingParseResult(pydantic.BaseModel):
    normal_text: str = ""
    calls: list[ToolCallItem] = []


@dataclasses.dataclass
class ReasoningParserResult:
    content: str = ""
    reasoning_content: str = ""


def split_held(text: str, marker: str) -> tuple[str, str]:
    """Return `text` without the end that may become `marker`, and that end."""
    held = next((size for size in range(len(marker) - 1, 0, -1) if text.endswith(marker[:size])), 0)
    return text[: len(text) - held], text[len(text) - held :]


class Qwen3ToolParser:
    needs_raw_special_tokens = False

    def __init__(self) -> None:
        self.prev_tool_call_arr: list[dict[str, Any]] = []
        self._buffer = ""

    def parse_streaming_increment(
        self, new_text: str, tools: list[ChatCompletionToolsParam]
    ) -> StreamingParseResult:
        self._buffer += new_text
        result = StreamingParseResult()
        while BEGIN in self._buffer:
            before, _, rest = self._buffer.partition(BEGIN)
            body, end, after = rest.partition(END)
            if not end:
                result.normal_text += before
                self._buffer = BEGIN + rest
                return result
            call = json.loads(body)
            index = len(self.prev_tool_call_arr)
            arguments = json.dumps(call["arguments"], ensure_ascii=False)
            self.prev_tool_call_arr.append(call)
            result.normal_text += before
            result.calls += [
                ToolCallItem(tool_index=index, name=call["name"], parameters=""),
                ToolCallItem(tool_index=index, parameters=arguments),
            ]
            self._buffer = after
        text, self._buffer = split_held(self._buffer, BEGIN)
        result.normal_text += text
        return result


class RawQwen3ToolParser(Qwen3ToolParser):
    needs_raw_special_tokens = True


class BrokenToolParser(Qwen3ToolParser):
    def __init__(self) -> None:
        raise RuntimeError("no such luck")


class ToolParserFactory:
    parsers = {
        "qwen3": Qwen3ToolParser,
        "raw": RawQwen3ToolParser,
        "broken": BrokenToolParser,
    }

    @staticmethod
    def create_tool_parser(tool_parser: str) -> Qwen3ToolParser:
        return ToolParserFactory.parsers[tool_parser.lower()]()


class DeepSeekR1Parser:
    def __init__(
        self,
        *,
        reasoning_at_start: bool = False,
        chat_template_kwargs: dict[str, Any] | None = None,
    ) -> None:
        self.in_reasoning = reasoning_at_start
        self._buffer = ""

    def parse_delta(self, delta_text: str) -> ReasoningParserResult:
        self._buffer += delta_text
        result = ReasoningParserResult()
        if not self.in_reasoning and "<think>" in self._buffer:
            result.content, _, self._buffer = self._buffer.partition("<think>")
            self.in_reasoning = True
        if self.in_reasoning and "</think>" in self._buffer:
            result.reasoning_content, _, self._buffer = self._buffer.partition("</think>")
            self.in_reasoning = False
        text, self._buffer = split_held(
            self._buffer, "</think>" if self.in_reasoning else "<think>"
        )
        if self.in_reasoning:
            result.reasoning_content += text
        else:
            result.content += text
        return result

    def finish(self) -> ReasoningParserResult:
        text, self._buffer = self._buffer, ""
        if self.in_reasoning:
            return ReasoningParserResult(reasoning_content=text)
        return ReasoningParserResult(content=text)


class ReasoningParserFactory:
    _parsers: dict[str, tuple[type[DeepSeekR1Parser], dict[str, Any]]] = {
        "qwen3": (DeepSeekR1Parser, {}),
        "deepseek-r1": (DeepSeekR1Parser, {"reasoning_at_start": True}),
    }

    @classmethod
    def create_reasoning_parser(
        cls, reasoning_parser: str, chat_template_kwargs: dict[str, Any] | None = None
    ) -> DeepSeekR1Parser:
        parser_cls, kwargs = cls._parsers[reasoning_parser.lower()]
        return parser_cls(chat_template_kwargs=chat_template_kwargs, **kwargs)

    @classmethod
    def keys(cls) -> Any:
        return cls._parsers.keys()

    @classmethod
    def needs_raw_special_tokens(cls, reasoning_parser: str) -> bool:
        return False
