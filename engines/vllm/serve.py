"""Our parsers in vLLM's own server, `vllm serve`, by the names of base/server_names.py.

vLLM makes one parser for each choice of a request and hands it text and token ids. Ours reads the
ids alone, with the worker's `Postprocessor`: its answers are the worker's, whatever the server's
steps and its own detokenizer are.

vLLM constrains an answer only after its reasoning, whose end its engine looks for. Here the
grammar begins with the first token and has the reasoning in it, as in Backedge's frontends, so the
engine's processes need to know nothing of the parsers.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from typing import ClassVar, TypeVar

from typing_extensions import override
from vllm.config import ModelConfig
from vllm.entrypoints.generate.base.protocol import (
    DeltaFunctionCall,
    DeltaMessage,
    DeltaToolCall,
    FunctionCall,
)
from vllm.exceptions import VLLMValidationError
from vllm.parser import Parser
from vllm.reasoning import ReasoningParser
from vllm.renderers.online_renderer import OnlineRenderer
from vllm.tokenizers import TokenizerLike
from vllm.tool_parsers import ToolParser
from vllm.tool_parsers.abstract_tool_parser import Tool
from vllm.tool_parsers.tool_strict_level import ToolStrictLevel

from ...base.errors import REASONING_FLAG, TOOL_CALL_FLAG, RequestError, SetupError, exiting
from ...base.json_types import JsonObject
from ...base.seams import check_seams, find_replaced, replace
from ...base.server_names import find_own_name
from ...parsers.base import ParserNames
from ...postprocess.messages import ChoiceDelta, Chunk
from ...postprocess.postprocessor import Postprocessor
from . import seams
from .serve_model import Request, ServedModel

# The prompt of the request that this task serves; vLLM shows it to parsers in streams only.
PROMPT: ContextVar[Sequence[int]] = ContextVar("prompt", default=())
T = TypeVar("T")
Preprocessed = tuple[list[object], list[dict[str, Sequence[int]]]]


def find_parser(
    *,
    tool_parser_name: str | None = None,
    reasoning_parser_name: str | None = None,
    enable_auto_tools: bool = False,
    is_harmony: bool = False,
    tool_strict_level: str | None = None,
    **_: object,
) -> type[Parser]:
    """Return the parser of a server whose flags name ours, in place of vLLM's `get_parser`.

    Ends the process with one sentence if they name vLLM's as well.
    """
    given = [tool_parser_name if enable_auto_tools else None, reasoning_parser_name]
    foreign = [name for name in given if name and find_own_name(name) is None]
    with exiting():
        if is_harmony:
            raise SetupError(
                "vLLM's server reads gpt-oss with one parser of its own, whatever the flags name; "
                f"leave Backedge's out of {TOOL_CALL_FLAG} and {REASONING_FLAG}."
            )
        if foreign:
            raise SetupError(
                f"{foreign[0]!r} is vLLM's parser, but one of Backedge's reads a whole answer: let "
                f"{TOOL_CALL_FLAG} and {REASONING_FLAG} both name Backedge's, or leave one out."
            )
        return build_parser(ParserNames(*map(find_own_name, given)), tool_strict_level or "auto")


@functools.cache
def build_parser(names: ParserNames, strict_level: str) -> type[Parser]:
    """Return the class of these parsers; all of a server's endpoints share it."""
    _patch_renderer()

    class Served(ServedParser):
        model = ServedModel(names, ToolStrictLevel.from_name(strict_level))
        tool_parser_cls = ToolNames if names.tool_call else None
        reasoning_parser_cls = ReasoningInGrammar if names.reasoning else None

    return Served


@functools.cache
def _patch_renderer() -> None:
    """Have the server load our parsers when it starts, and read each request's prompt.

    Raises `SetupError` for a seam that does not hold.
    """
    check_seams(seams.SERVER, ("vllm",))
    renderer = "vllm.renderers.online_renderer:OnlineRenderer."
    for name, build in (("warmup", _load_first), ("preprocess_chat", _constrain_after)):
        replace(find_replaced(seams.SERVER, renderer + name), build)


def _load_first(warmup: Callable[[OnlineRenderer], None]) -> Callable[[OnlineRenderer], None]:
    @functools.wraps(warmup)
    def load_and_warm_up(renderer: OnlineRenderer) -> None:
        with exiting():
            renderer.parser.model.load(
                renderer.renderer.get_tokenizer(), renderer.model_config, renderer.chat_template
            )
        warmup(renderer)

    return load_and_warm_up


def _constrain_after(
    preprocess: Callable[..., Awaitable[Preprocessed]],
) -> Callable[..., Awaitable[Preprocessed]]:
    @functools.wraps(preprocess)
    async def preprocess_and_constrain(
        renderer: OnlineRenderer, request: Request, *args: object, **more: object
    ) -> Preprocessed:
        conversation, inputs = await preprocess(renderer, request, *args, **more)
        if isinstance(request, Request):  # not one that only counts its tokens
            prompt = inputs[0].get("prompt_token_ids") or ()
            PROMPT.set(prompt)
            refusing(lambda: renderer.parser.model.let_reason(request, prompt))
        return conversation, inputs

    return preprocess_and_constrain


def refusing(constrain: Callable[[], T]) -> T:
    """Return what `constrain` returns, with its `RequestError` as vLLM's error for HTTP 400."""
    try:
        return constrain()
    except RequestError as error:
        raise VLLMValidationError(str(error), parameter=error.field) from error


class ServedParser(Parser):
    """Parses one choice of a request, streamed or whole, by the post-processing of our workers."""

    model: ClassVar[ServedModel]

    def __init__(
        self,
        tokenizer: TokenizerLike,
        tools: list[Tool] | None = None,
        *,
        chat_template_kwargs: JsonObject | None = None,
        model_config: ModelConfig | None = None,
    ) -> None:
        super().__init__(tokenizer, tools, model_config=model_config)
        self._chat_template_kwargs = chat_template_kwargs
        self._postprocessor: Postprocessor | None = None

    @override
    def adjust_request(self, request: Request) -> Request:
        if self.tool_parser_cls is not None:
            refusing(lambda: self.model.constrain_calls(request))
        return request

    @override
    def is_reasoning_end(self, input_ids: Sequence[int]) -> bool:
        return True  # the grammar has the reasoning in it

    @override
    def parse(
        self,
        model_output: str,
        request: Request,
        enable_auto_tools: bool = False,
        model_output_token_ids: Sequence[int] = (),
    ) -> tuple[str | None, str | None, list[FunctionCall] | None]:
        post = self._begin(request, PROMPT.get(), stream=False)
        [whole] = self._feed(post, request, model_output_token_ids, finished=True)
        delta = whole.delta
        calls = [
            FunctionCall(id=call.id, name=call.function.name, arguments=call.function.arguments)
            for call in delta.tool_calls
        ]
        return delta.reasoning_content, delta.content, calls or None

    @override
    def parse_delta(
        self,
        delta_text: str,
        delta_token_ids: Sequence[int],
        request: Request,
        prompt_token_ids: Sequence[int] | None = None,
        *,
        finished: bool,
    ) -> DeltaMessage | None:
        post = self._postprocessor or self._begin(request, prompt_token_ids or (), stream=True)
        return join_deltas(self._feed(post, request, delta_token_ids, finished=finished))

    @override
    def count_reasoning_tokens(self, token_ids: Sequence[int]) -> int:
        post = self._postprocessor
        return 0 if post is None else post.choices[0].reasoning_tokens

    def _begin(
        self, request: Request, prompt_token_ids: Sequence[int], *, stream: bool
    ) -> Postprocessor:
        model = self.model
        params = model.read_params(
            request, prompt_token_ids, self._chat_template_kwargs, stream=stream
        )
        post = self._postprocessor = Postprocessor(
            params, model.detokenizers, model.parsers, prompt_token_ids=prompt_token_ids
        )
        return post

    def _feed(
        self, post: Postprocessor, request: Request, token_ids: Sequence[int], *, finished: bool
    ) -> list[ChoiceDelta]:
        ids = list(token_ids)
        reason = self.model.find_finish(request, ids) if finished else None
        if reason == "length":
            # A stop string may have ended the answer, and is found first.
            post.add(Chunk(token_ids=ids))
            ids = []
        post.add(Chunk(token_ids=ids, finish_reason=reason))
        return post.take(0)


def join_deltas(deltas: Sequence[ChoiceDelta]) -> DeltaMessage | None:
    """Return the deltas of one step as vLLM's message; None if they have no text."""
    parts = [part.delta for part in deltas]
    found = {
        "reasoning": "".join(part.reasoning_content or "" for part in parts),
        "content": "".join(part.content or "" for part in parts),
        "tool_calls": [
            DeltaToolCall(
                index=call.index,
                function=DeltaFunctionCall(
                    arguments=call.function.arguments, **_present(name=call.function.name)
                ),
                **_present(id=call.id, type=call.type),
            )
            for part in parts
            for call in part.tool_calls
        ],
    }
    message = {name: value for name, value in found.items() if value}
    return DeltaMessage(**message) if message else None


def _present(**fields: str | None) -> dict[str, str]:
    return {name: value for name, value in fields.items() if value is not None}


class ToolNames(ToolParser):
    """Stands in vLLM's table for our parsers of calls; `ServedParser` reads the output."""


class ReasoningInGrammar(ReasoningParser):
    """Tells vLLM's engine that the grammar begins with the first token: reasoning is part of it."""

    @override
    def is_reasoning_end(self, input_ids: Sequence[int]) -> bool:
        return True

    @override
    def extract_content_ids(self, input_ids: list[int]) -> list[int]:
        return input_ids
