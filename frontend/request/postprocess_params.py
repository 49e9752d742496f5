"""Builds the parameters with which a worker post-processes a request's output."""

from __future__ import annotations

import time

from ...base.json_types import JsonObject
from ...guided.guided_decoding import constrains_to_json
from ...parsers.base import ParserRequest, forces_call
from ...postprocess.messages import PostprocessParams
from ...tokenization.detokenizer import DetokenizerOptions
from .chat_request import ChatRequest, StreamOptions
from .sampling import SamplingParams


def build_postprocess_params(
    request_id: str,
    request: ChatRequest,
    sampling: SamplingParams,
    prompt_length: int,
    parser: ParserRequest,
) -> PostprocessParams:
    """Return the parameters of one request.

    request_id: the response's id without its prefix. prompt_length: in tokens.
    """
    stream = bool(request.stream)
    options = request.stream_options or StreamOptions()
    return PostprocessParams(
        response_id=f"chatcmpl-{request_id}",
        created=int(time.time()),
        model=request.model,
        prompt_length=prompt_length,
        n=sampling.n,
        stream=stream,
        include_usage=not stream or bool(options.include_usage),
        continuous_usage_stats=stream and bool(options.continuous_usage_stats),
        stop=list(sampling.stop or ()),
        include_stop_str_in_output=sampling.include_stop_str_in_output,
        min_tokens=sampling.min_tokens,
        # The client's choice about special tokens, which parsers may override in `sampling`.
        detokenizer=DetokenizerOptions(
            request.skip_special_tokens is not False, bool(sampling.spaces_between_special_tokens)
        ),
        logprobs=request.top_logprobs_count,
        return_token_ids=_wants_token_ids(request),
        return_tokens_as_token_ids=bool(request.return_tokens_as_token_ids),
        parser=parser,
    )


def _wants_token_ids(request: ChatRequest) -> bool:
    """Whether the client asks for output token ids, in vLLM's way or in Dynamo's."""
    extra_fields = (request.nvext.extra_fields if request.nvext else None) or []
    return bool(request.return_token_ids) or "completion_token_ids" in extra_fields


def build_parser_request(
    request: ChatRequest,
    guided_decoding: JsonObject | None,
    chat_template_kwargs: JsonObject | None,
    *,
    include_reasoning: bool,
) -> ParserRequest:
    """Return the parameters of parsing.

    guided_decoding: in Dynamo's form. chat_template_kwargs: those that the engine's reasoning
        parser gets; None for the request's own.
    """
    tools = request.raw["tools"] if request.tools else []
    tool_choice = request.raw["tool_choice"] if request.tool_choice else None
    tool_choice = tool_choice or ("auto" if tools else "none")
    if chat_template_kwargs is None:
        chat_template_kwargs = request.chat_template_args
    return ParserRequest(
        tools=tools,
        tool_choice=tool_choice,
        parallel_tool_calls=request.parallel_tool_calls is not False,
        json_calls=forces_call(tool_choice) and constrains_to_json(guided_decoding),
        chat_template_kwargs=chat_template_kwargs or {},
        include_reasoning=include_reasoning,
        history_tool_calls=sum(
            len(message.tool_calls or ())
            for message in request.messages
            if message.role == "assistant"
        ),
    )
