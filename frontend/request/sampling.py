"""A chat request in the form in which Dynamo routes it, without an engine's help.

The fields and their defaults are those that Dynamo's vLLM forward edge sends
(`dynamo.frontend.vllm_processor`), so a worker cannot tell the two edges apart.
"""

from __future__ import annotations

from typing import Any

import msgspec
from dynamo.common.utils.input_params import resolve_thinking_token_budget

from ...parsers.errors import RequestError
from ...tokenization.model_files import ModelFolder

# What counts if neither the request nor the model's generation_config.json says anything.
DEFAULTS = {
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "repetition_penalty": 1.0,
    "temperature": 1.0,
    "top_p": 1.0,
}


class Sampling(msgspec.Struct, frozen=True):
    """What post-processing has to know of it, under the names of vLLM's SamplingParams."""

    n: int
    stop: list[str]
    min_tokens: int
    include_stop_str_in_output: bool
    spaces_between_special_tokens: bool


def read_sampling(request: dict[str, Any]) -> Sampling:
    """Return what the request asks for."""
    stop = request.get("stop") or []
    return Sampling(
        n=request.get("n") or 1,
        stop=[stop] if isinstance(stop, str) else stop,
        min_tokens=request.get("min_tokens") or 0,
        include_stop_str_in_output=bool(request.get("include_stop_str_in_output")),
        spaces_between_special_tokens=request.get("spaces_between_special_tokens") is not False,
    )


def build_preprocessed_request(
    request: dict[str, Any],
    token_ids: list[int],
    files: ModelFolder,
    context_length: int | None,
    guided_decoding: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the request as Dynamo routes it.

    token_ids: the prompt's. context_length: of the worker, None if it does not say.
    guided_decoding: in Dynamo's form.
    Raises `RequestError` for a prompt that leaves no room for an answer.
    """
    sampling = read_sampling(request)
    preprocessed: dict[str, Any] = {
        "model": request["model"],
        "token_ids": token_ids,
        "stop_conditions": {
            "max_tokens": _max_tokens(request, len(token_ids), context_length),
            "stop": sampling.stop,
            "stop_token_ids": _stop_token_ids(request, files),
            "min_tokens": sampling.min_tokens,
            "ignore_eos": bool(request.get("ignore_eos")),
            "max_thinking_tokens": resolve_thinking_token_budget(request),
        },
        "sampling_options": _sampling_options(request, sampling, files.generation_config),
        "output_options": {
            "logprobs": (request.get("top_logprobs") or 0)
            if request.get("logprobs") is True
            else None,
            "prompt_logprobs": request.get("prompt_logprobs"),
            "skip_special_tokens": request.get("skip_special_tokens") is not False,
        },
        "eos_token_ids": files.eos_token_ids,
        "annotations": [],
        "routing": request.get("routing"),
    }
    if guided_decoding is not None:
        preprocessed["sampling_options"]["guided_decoding"] = guided_decoding
    return preprocessed


def _max_tokens(
    request: dict[str, Any], prompt_tokens: int, context_length: int | None
) -> int | None:
    if context_length is not None and prompt_tokens >= context_length:
        allowed = f"up to {context_length - 1} tokens, the model's context less one for the answer"
        raise RequestError("messages", f"{prompt_tokens} tokens long", allowed)
    limit: int | None = request.get("max_completion_tokens") or request.get("max_tokens")
    if limit is None and context_length is not None:
        return context_length - prompt_tokens
    return limit


def _stop_token_ids(request: dict[str, Any], files: ModelFolder) -> list[int]:
    """Return the request's, and the ends of sequence that only generation_config.json names."""
    token_ids = list(request.get("stop_token_ids") or [])
    if not request.get("ignore_eos"):
        token_ids += [
            token_id
            for token_id in files.further_eos_token_ids
            if token_id not in files.eos_token_ids
        ]
    return list(dict.fromkeys(token_ids))


def _sampling_options(
    request: dict[str, Any], sampling: Sampling, model: dict[str, Any]
) -> dict[str, Any]:
    options: dict[str, Any] = {"n": sampling.n, "seed": request.get("seed")}
    for name, default in DEFAULTS.items():
        options[name] = next(
            value for value in (request.get(name), model.get(name), default) if value is not None
        )
    for name in ("top_k", "min_p"):
        # Off by default; only a client may say so, since a worker may read 0 as "not said".
        of_model = model.get(name) or 0
        options[name] = (
            request[name] if request.get(name) is not None else of_model if of_model > 0 else None
        )
    return options
