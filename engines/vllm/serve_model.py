"""The model of a vLLM server with our parsers, and what its requests ask for.

vLLM's requests are pydantic models, of chat completions or of responses.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TypeAlias

from vllm import envs
from vllm.config import ModelConfig
from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
from vllm.entrypoints.openai.responses.protocol import ResponsesRequest
from vllm.parser.abstract_parser import structured_outputs_to_format
from vllm.parser.utils import count_history_tool_calls
from vllm.sampling_params import StructuredOutputsParams
from vllm.tokenizers import TokenizerLike
from vllm.tool_parsers.tool_strict_level import ToolStrictLevel

from ...base.errors import RequestError
from ...base.json_types import JsonObject
from ...guided.call_policy import (
    CallPolicy,
    after_reasoning,
    as_guided_decoding,
    constrains_to_json,
    find_call_format,
    leaves_text_free,
    read_reasoning_tags,
    read_schema,
    settle_markers,
)
from ...guided.guided_request import GuidedRequest, check_schemas, decode_request
from ...parsers.base import ParserNames, ParserRequest
from ...parsers.parser_lookup import linear_parsers, reasoning_format
from ...postprocess.messages import PostprocessParams
from ...templates.auto_parsers import resolve_for_server
from ...tokenization.detokenizer import DetokenizerOptions, detokenizers, read_vocabulary

Request: TypeAlias = ChatCompletionRequest | ResponsesRequest


class ServedModel:
    """A server's parsers, detokenizers and grammars, which all its requests share.

    names: of its parsers, perhaps "auto". strict_level: vLLM's `--tool-strict-level`.
    """

    def __init__(self, names: ParserNames, strict_level: ToolStrictLevel) -> None:
        self._names = names
        self._strict_level = strict_level

    def load(
        self, tokenizer: TokenizerLike, model_config: ModelConfig, chat_template: str | None = None
    ) -> None:
        """Find and build the parsers. Raises `SetupError` if they do not suit the model.

        chat_template: its source, of `--chat-template`; None for the model's own.
        """
        names = self._names = resolve_for_server(
            self._names,
            model_config.tokenizer,
            revision=model_config.tokenizer_revision,
            source=chat_template,
        )
        vocabulary = read_vocabulary(tokenizer)
        self.parsers = linear_parsers(names, vocabulary)
        self.detokenizers = detokenizers(tokenizer)
        self._ends = _read_ends(tokenizer, model_config)
        format_ = reasoning_format(names.reasoning) if names.reasoning else None
        tags = None
        if format_ is not None:
            tags = read_reasoning_tags(settle_markers(format_, lambda: vocabulary.ids))
        self._reasoning = tags
        self._policy = CallPolicy(
            calls=find_call_format(names, lambda: vocabulary.ids),
            enabled=envs.VLLM_ENFORCE_STRICT_TOOL_CALLING,
            always=self._strict_level >= ToolStrictLevel.FUNCTION,
            strict=self._strict_level >= ToolStrictLevel.PARAMETER,
        )

    def constrain_calls(self, request: Request) -> None:
        """Give a request the grammar of its calls. Raises `RequestError`."""
        guided = read_guided(request)
        is_own = request.extract_structured_outputs() is not None and not guided.forces_call
        if is_own or not self._policy.constrains(guided):
            return
        check_schemas(guided)
        answer = self._policy.constrain(guided)
        if answer is not None:
            if "json" in answer:
                answer = {"json": read_schema(answer["json"])}
            _set_constraint(request, answer)

    def let_reason(self, request: Request, prompt_token_ids: Sequence[int]) -> None:
        """Have the grammar of a request let reasoning pass. Raises `RequestError`."""
        constraint = request.extract_structured_outputs()
        format_ = None if constraint is None else structured_outputs_to_format(constraint)
        if format_ is None or self._names.reasoning is None:
            return
        answer = as_guided_decoding(format_.model_dump(mode="json"))
        if leaves_text_free(answer):
            return
        if self._reasoning is None:
            raise RequestError(
                "response_format" if request.tool_choice in (None, "none") else "tool_choice",
                f"needs a grammar, and no grammar has room for {self._names.reasoning}'s reasoning",
            )
        parser = self.parsers(
            self.read_request(request, request.chat_template_kwargs), prompt_token_ids
        )
        stops = bool(getattr(request, "stop_token_ids", None))
        opened = parser.continues_reasoning
        answer = after_reasoning(answer, self._reasoning, opened=opened, may_stop=stops)
        _set_constraint(request, answer)

    def read_request(
        self, request: Request, chat_template_kwargs: JsonObject | None
    ) -> ParserRequest:
        """Return the parts of vLLM's request that parsers need."""
        tools = read_tools(request) if self._names.tool_call else []
        choice = read_tool_choice(request) or "auto"
        guided = read_guided(request) if tools else GuidedRequest()
        return ParserRequest(
            tools=tools,
            tool_choice=choice if tools else "none",
            parallel_tool_calls=request.parallel_tool_calls is not False,
            json_calls=guided.forces_call and constrains_to_json(self._policy.constrain(guided)),
            chat_template_kwargs=chat_template_kwargs or {},
            include_reasoning=request.include_reasoning,
            history_tool_calls=count_history_tool_calls(request),
        )

    def read_params(
        self,
        request: Request,
        prompt_token_ids: Sequence[int],
        chat_template_kwargs: JsonObject | None,
        *,
        stream: bool,
    ) -> PostprocessParams:
        """Return the parameters of post-processing, with the stop strings of vLLM's server."""
        stop = request.stop or []
        return PostprocessParams(
            response_id=request.request_id,
            created=0,
            model="",
            prompt_length=len(prompt_token_ids),
            stream=stream,
            stop=[stop] if isinstance(stop, str) else stop,
            include_stop_str_in_output=request.include_stop_str_in_output,
            min_tokens=getattr(request, "min_tokens", 0),
            detokenizer=DetokenizerOptions(
                request.skip_special_tokens, getattr(request, "spaces_between_special_tokens", True)
            ),
            parser=self.read_request(request, chat_template_kwargs),
            stops_in_reasoning=True,
        )

    def find_finish(self, request: Request, token_ids: Sequence[int]) -> str:
        """Return the reason for which the engine ended an answer with these tokens.

        vLLM does not tell parsers. Stop strings are found by the `Postprocessor`.
        """
        ends = {*(self._ends if not request.ignore_eos else ())}
        ends.update(getattr(request, "stop_token_ids", None) or ())
        return "stop" if token_ids and token_ids[-1] in ends else "length"


def _read_ends(tokenizer: TokenizerLike, model_config: ModelConfig) -> frozenset[int]:
    """Return the tokens with which the model ends an answer."""
    found = model_config.try_get_generation_config().get("eos_token_id")
    ends = [*(found if isinstance(found, list) else [found]), tokenizer.eos_token_id]
    return frozenset(end for end in ends if end is not None)


def read_tools(request: Request) -> list[JsonObject]:
    """Return the functions of a request of either API, as chat completions have them."""
    tools = [tool.model_dump(mode="json", exclude_none=True) for tool in request.tools or ()]
    functions = [tool for tool in tools if tool["type"] == "function"]
    if isinstance(request, ChatCompletionRequest):
        return functions
    return [
        {"type": tool.pop("type"), "function": tool | {"strict": tool.get("strict")}}
        for tool in functions
    ]


def read_tool_choice(request: Request) -> str | JsonObject | None:
    """Return the choice of a request of either API, as chat completions have it."""
    choice = request.tool_choice
    if choice is None or isinstance(choice, str):
        return choice
    named: JsonObject = choice.model_dump(mode="json")
    if named["type"] != "function":
        return "auto"  # a choice among tools that are not functions, or among some of them
    return (
        named if "function" in named else {"type": "function", "function": {"name": named["name"]}}
    )


def read_guided(request: Request) -> GuidedRequest:
    """Return the fields of a request that constrain its calls."""
    found = {
        "tools": read_tools(request) or None,
        "tool_choice": read_tool_choice(request),
        "parallel_tool_calls": request.parallel_tool_calls,
    }
    return decode_request(found, GuidedRequest)


def _set_constraint(request: Request, answer: JsonObject) -> None:
    """Replace the constraints of a request of either API by one in Dynamo's form."""
    [(kind, value)] = answer.items()
    given = json.dumps(value) if kind == "structural_tag" else value
    request.structured_outputs = StructuredOutputsParams(**{kind: given})
    if isinstance(request, ChatCompletionRequest):
        request.response_format = None
    else:
        request.text = None
