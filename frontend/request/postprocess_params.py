"""What the worker has to know of a request, from what Dynamo's forward edge made of it."""

from __future__ import annotations

import time
from typing import Any

from ...parsers.base import ParserRequest
from ...postprocess.messages import PostprocessParams
from ...tokenization.detokenizer import DetokenizerOptions


def build_postprocess_params(
    request_id: str,
    request: dict[str, Any],
    preprocessed: dict[str, Any],
    sampling_params: Any,
    *,
    include_reasoning: bool = True,
) -> PostprocessParams:
    """Return the spec of one request.

    request_id: the response's id behind its prefix. request: as the client sent it.
    preprocessed: the request as Dynamo routes it. sampling_params: vLLM's
        SamplingParams, or `sampling.Sampling`.
    """
    options = request.get("stream_options") or {}
    stream = bool(request.get("stream"))
    nvext_fields = (request.get("nvext") or {}).get("extra_fields") or []
    return PostprocessParams(
        response_id=f"chatcmpl-{request_id}",
        created=int(time.time()),
        model=request["model"],
        prompt_length=len(preprocessed["token_ids"]),
        n=sampling_params.n,
        stream=stream,
        include_usage=not stream or bool(options.get("include_usage")),
        continuous_usage_stats=stream and bool(options.get("continuous_usage_stats")),
        stop=list(sampling_params.stop or ()),
        include_stop_str_in_output=sampling_params.include_stop_str_in_output,
        min_tokens=sampling_params.min_tokens,
        # The client's wish, which the parsers may have overruled in sampling_params.
        detokenizer=DetokenizerOptions(
            request.get("skip_special_tokens") is not False,
            bool(sampling_params.spaces_between_special_tokens),
        ),
        logprobs=_logprobs(request),
        return_token_ids=bool(request.get("return_token_ids"))
        or "completion_token_ids" in nvext_fields,
        return_tokens_as_token_ids=bool(request.get("return_tokens_as_token_ids")),
        parser=_parser_request(request, preprocessed, include_reasoning=include_reasoning),
    )


def _logprobs(request: dict[str, Any]) -> int | None:
    """Return the number of alternatives per token, None for no logprobs."""
    return request.get("top_logprobs") or 0 if request.get("logprobs") is True else None


def _parser_request(
    request: dict[str, Any], preprocessed: dict[str, Any], *, include_reasoning: bool
) -> ParserRequest:
    tools = request.get("tools") or []
    tool_choice = request.get("tool_choice") or ("auto" if tools else "none")
    reasoning_kwargs = preprocessed.get("reasoning_parser_kwargs") or {}
    template_kwargs = reasoning_kwargs.get(
        "chat_template_kwargs", request.get("chat_template_args")
    )
    return ParserRequest(
        tools=tools,
        tool_choice=tool_choice,
        parallel_tool_calls=request.get("parallel_tool_calls") is not False,
        json_calls=tool_choice not in ("none", "auto") and _guides_json(preprocessed),
        chat_template_kwargs=template_kwargs or {},
        include_reasoning=include_reasoning,
        history_tool_calls=sum(
            len(message.get("tool_calls") or ())
            for message in request["messages"]
            if message["role"] == "assistant"
        ),
    )


def _guides_json(preprocessed: dict[str, Any]) -> bool:
    """Whether the grammar of a forced call is its JSON schema, not the model's own syntax.

    A regular expression is Dynamo's grammar for a named call without arguments.
    """
    guided = preprocessed["sampling_options"].get("guided_decoding") or {}
    return guided.get("json") is not None or guided.get("regex") == r"\{\}"
