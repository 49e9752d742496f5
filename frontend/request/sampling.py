"""Builds an engine's sampling options and stop conditions.

The fields and their defaults are those of `dynamo.frontend.vllm_processor`, so a worker cannot
tell which preprocessor made a request.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec
from msgspec import UNSET, UnsetType

from ...base.errors import RequestError
from ...base.json_types import JsonObject
from ...tokenization.model_files import GenerationConfig, ModelFolder
from ...tokenization.prompt_limit import describe_longest
from .chat_request import ChatRequest

# Used if neither the request nor the model's generation_config.json has a value.
DEFAULTS = {
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "repetition_penalty": 1.0,
    "temperature": 1.0,
    "top_p": 1.0,
}


class SamplingParams(Protocol):
    """The sampling parameters that post-processing needs. Source: `vllm.SamplingParams`."""

    @property
    def n(self) -> int:
        """Number of choices."""
        ...

    @property
    def stop(self) -> Sequence[str] | None:
        """Stop strings."""
        ...

    @property
    def min_tokens(self) -> int:
        """Number of output tokens before which a choice must not end."""
        ...

    @property
    def include_stop_str_in_output(self) -> bool:
        """Whether the client gets the stop string that ended a choice."""
        ...

    @property
    def spaces_between_special_tokens(self) -> bool:
        """Whether special tokens in the text are separated by spaces."""
        ...


class RequestedSampling(msgspec.Struct, frozen=True):
    """The `SamplingParams` that a request asks for."""

    n: int
    stop: list[str]
    min_tokens: int
    include_stop_str_in_output: bool
    spaces_between_special_tokens: bool


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


def read_sampling(request: ChatRequest) -> RequestedSampling:
    """Return the sampling that a request asks for."""
    return RequestedSampling(
        n=request.n or 1,
        stop=request.stop_strings,
        min_tokens=request.min_tokens or 0,
        include_stop_str_in_output=bool(request.include_stop_str_in_output),
        spaces_between_special_tokens=request.spaces_between_special_tokens is not False,
    )


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
        name: _first_set(getattr(request, name), getattr(generation_config, name), default)
        for name, default in DEFAULTS.items()
    }
    for name in ("top_k", "min_p"):
        # Only a client may disable them, because a worker may treat 0 as unset.
        configured = getattr(generation_config, name) or 0
        options[name] = _first_set(getattr(request, name), configured if configured > 0 else None)
    return SamplingOptions(
        n=request.n or 1,
        seed=request.seed,
        guided_decoding=UNSET if guided_decoding is None else guided_decoding,
        **options,
    )


def _first_set(*values: float | None) -> float | None:
    for value in values:
        if value is not None:
            return value
    return None
