"""A chat request in the form that Dynamo routes. Source: Dynamo's `PreprocessedRequest`."""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType

from ...base.json_types import JsonObject
from ...tokenization.model_files import ModelFolder
from .chat_request import ChatRequest
from .sampling import (
    SamplingOptions,
    StopConditions,
    build_sampling_options,
    build_stop_conditions,
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
            prompt_logprobs=request.prompt_logprobs,
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
