"""A chat request in the form that Dynamo routes. Source: Dynamo's `PreprocessedRequest`.

The fields of sampling and their defaults are those of `dynamo.frontend.vllm_processor`, so a worker
cannot tell which preprocessor made a request. `build_postprocess_params` adds what our workers
need.
"""

from __future__ import annotations

import time

import msgspec
from msgspec import UNSET, UnsetType

from ...base.errors import RequestError
from ...base.json_types import JsonObject
from ...base.ranges import ALL_ALTERNATIVES
from ...guided.call_policy import constrains_to_json
from ...parsers.base import ParserRequest, forces_call
from ...postprocess.messages import PostprocessParams
from ...tokenization.detokenizer import DetokenizerOptions
from ...tokenization.model_files import SAMPLING_DEFAULTS, GenerationConfig, ModelFolder
from ...tokenization.prompt_cache import describe_longest
from .chat_request import DISCARDED_TOKENS, MALFORMED_CALLS, ChatRequest, StreamOptions


class StopConditions(msgspec.Struct):
    """The limits of a preprocessed request, in tokens, and its stop strings and stop tokens.

    max_tokens: None leaves the limit to the worker.
    """

    max_tokens: int | None
    stop: list[str]
    stop_token_ids: list[int]
    min_tokens: int
    ignore_eos: bool
    max_thinking_tokens: int | None


class SamplingOptions(msgspec.Struct, kw_only=True):
    """The sampling options of a preprocessed request.

    top_k, min_p: None if neither the client nor the model sets them.
    """

    n: int
    seed: int | None
    presence_penalty: float
    frequency_penalty: float
    repetition_penalty: float
    temperature: float
    top_p: float
    top_k: int | None
    min_p: float | None
    guided_decoding: JsonObject | UnsetType = UNSET


def build_stop_conditions(
    request: ChatRequest, prompt_length: int, folder: ModelFolder, context_length: int | None
) -> StopConditions:
    """Return the limits of the request.

    prompt_length: in tokens. context_length: of the worker, in tokens; None if unknown.
    Raises `RequestError` for a prompt that leaves no room for an answer.
    """
    budget = request.thinking_token_budget
    if budget is None and request.nvext is not None:
        budget = request.nvext.max_thinking_tokens
    return StopConditions(
        max_tokens=_limit_output(request, prompt_length, context_length),
        stop=request.stop_strings,
        stop_token_ids=_build_stop_token_ids(request, folder),
        min_tokens=request.min_tokens or 0,
        ignore_eos=bool(request.ignore_eos),
        max_thinking_tokens=budget,
    )


def _limit_output(
    request: ChatRequest, prompt_length: int, context_length: int | None
) -> int | None:
    if context_length is not None and prompt_length >= context_length:
        raise prompt_error(prompt_length, context_length)
    if request.max_output_tokens is None and context_length is not None:
        return context_length - prompt_length
    return request.max_output_tokens


def prompt_error(prompt_length: int, context_length: int) -> RequestError:
    """Return the error for a prompt that leaves no room for an answer. Lengths in tokens."""
    longest = describe_longest(context_length)
    return RequestError("messages", f"has {prompt_length} tokens; {longest}")


def _build_stop_token_ids(request: ChatRequest, folder: ModelFolder) -> list[int]:
    """Return the client's stop tokens, and the model's that the engine would not stop at.

    The engine knows `eos_token_ids`; generation_config.json may have others.
    """
    token_ids = list(request.stop_token_ids or [])
    if not request.ignore_eos:
        token_ids += [
            token_id
            for token_id in folder.further_eos_token_ids
            if token_id not in folder.eos_token_ids
        ]
    return list(dict.fromkeys(token_ids))


def build_sampling_options(
    request: ChatRequest, generation_config: GenerationConfig, guided_decoding: JsonObject | None
) -> SamplingOptions:
    """Return the client's options, then the model's, then the defaults.

    guided_decoding: in Dynamo's form; None for an unconstrained answer.
    """
    options: JsonObject = {
        name: generation_config.resolve(request, name) for name in SAMPLING_DEFAULTS
    }
    for name in ("top_k", "min_p"):
        # Only a client may disable them, because a worker may treat 0 as unset.
        asked, configured = getattr(request, name), getattr(generation_config, name) or 0
        options[name] = (configured if configured > 0 else None) if asked is None else asked
    n = request.n or 1
    if n > 1 and not options["temperature"]:
        # vLLM refuses several greedy choices, but not the likeliest token by another name.
        options |= {"temperature": 1.0, "top_k": 1}
    return SamplingOptions(
        n=n,
        seed=request.seed,
        guided_decoding=UNSET if guided_decoding is None else guided_decoding,
        **options,
    )


class OutputOptions(msgspec.Struct):
    """The engine's output besides token ids. logprobs: alternatives per token or None."""

    logprobs: int | None
    prompt_logprobs: int | None
    skip_special_tokens: bool


class ReasoningParserKwargs(msgspec.Struct):
    """The arguments of the engine's reasoning parser."""

    chat_template_kwargs: JsonObject


class EngineFields(msgspec.Struct, kw_only=True):
    """Fields of a preprocessed request that Dynamo's router passes to the workers unread.

    reasoning_ended: the prompt ends after the model's reasoning; UNSET if only the engine's
        own parser can say. require_reasoning: SGLang's grammar starts after the reasoning.
    extra_args: the fields that workers read but Dynamo does not declare.
    """

    reasoning_parser_kwargs: ReasoningParserKwargs | UnsetType = UNSET
    reasoning_ended: bool | UnsetType = UNSET
    require_reasoning: bool | UnsetType = UNSET
    multi_modal_data: JsonObject | UnsetType = UNSET
    extra_args: JsonObject | UnsetType = UNSET

    @property
    def chat_template_kwargs(self) -> JsonObject | None:
        """The chat template's arguments for the engine's reasoning parser, if any."""
        kwargs = self.reasoning_parser_kwargs
        return None if kwargs is UNSET else kwargs.chat_template_kwargs


class PreprocessedRequest(EngineFields, kw_only=True):
    """The request as Dynamo routes it. token_ids: the prompt."""

    model: str
    token_ids: list[int]
    stop_conditions: StopConditions
    sampling_options: SamplingOptions
    output_options: OutputOptions
    eos_token_ids: list[int]
    annotations: list[str] = []
    routing: object = None


class Prompt(msgspec.Struct):
    """A rendered and tokenized request.

    guided_decoding: in Dynamo's form; None for an unconstrained answer.
    """

    token_ids: list[int]
    guided_decoding: JsonObject | None = None
    engine_fields: EngineFields = msgspec.field(default_factory=EngineFields)


def build_preprocessed_request(
    request: ChatRequest, prompt: Prompt, folder: ModelFolder, context_length: int | None
) -> PreprocessedRequest:
    """Return the request as Dynamo routes it.

    context_length: of the worker, in tokens; None if unknown.
    Raises `RequestError` for a prompt that leaves no room for an answer.
    """
    alternatives = request.prompt_logprobs_count
    return PreprocessedRequest(
        model=request.model,
        token_ids=prompt.token_ids,
        stop_conditions=build_stop_conditions(
            request, len(prompt.token_ids), folder, context_length
        ),
        sampling_options=build_sampling_options(
            request, folder.generation_config, prompt.guided_decoding
        ),
        output_options=OutputOptions(
            logprobs=request.top_logprobs_count,
            prompt_logprobs=ALL_ALTERNATIVES if alternatives == -1 else alternatives,
            skip_special_tokens=request.skip_special_tokens is not False,
        ),
        eos_token_ids=folder.eos_token_ids,
        routing=request.routing,
        **msgspec.structs.asdict(prompt.engine_fields),
    )


def to_json_object(request: PreprocessedRequest) -> JsonObject:
    """Return the request for Dynamo, without unset fields.

    The token ids are shared, not copied: copying a long prompt would block the event loop.
    """
    fields: JsonObject = msgspec.to_builtins(msgspec.structs.replace(request, token_ids=[]))
    fields["token_ids"] = request.token_ids
    return fields


def build_postprocess_params(
    request_id: str,
    request: ChatRequest,
    prompt_length: int,
    parser: ParserRequest,
    *,
    spaces: bool | None = None,
) -> PostprocessParams:
    """Return the parameters of one request.

    request_id: the response's id without its prefix. prompt_length: in tokens.
    spaces: between special tokens, as the engine's parsers want them; None for as the client does.
    """
    stream = bool(request.stream)
    options = request.stream_options or StreamOptions()
    if spaces is None:
        spaces = request.spaces_between_special_tokens is not False
    return PostprocessParams(
        response_id=f"chatcmpl-{request_id}",
        created=int(time.time()),
        model=request.model,
        prompt_length=prompt_length,
        n=request.n or 1,
        stream=stream,
        include_usage=not stream or bool(options.include_usage),
        continuous_usage_stats=stream and bool(options.continuous_usage_stats),
        stop=request.stop_strings,
        include_stop_str_in_output=bool(request.include_stop_str_in_output),
        min_tokens=request.min_tokens or 0,
        detokenizer=DetokenizerOptions(request.skip_special_tokens is not False, spaces),
        logprobs=request.top_logprobs_count,
        # In vLLM's way, or in Dynamo's.
        return_token_ids=bool(request.return_token_ids)
        or "completion_token_ids" in request.extra_fields,
        return_tokens_as_token_ids=bool(request.return_tokens_as_token_ids),
        parser=parser,
        reports_calls=not {MALFORMED_CALLS, DISCARDED_TOKENS}.isdisjoint(request.extra_fields),
    )


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
        once=request.malformed_calls == "open",
    )
