"""Requests of Dynamo's form, for transformers' batches."""

from __future__ import annotations

from typing import Any

import pytest
from backedge.base.errors import RequestError
from backedge.engines.transformers.worker_request import read_request
from backedge.tokenization.model_files import GenerationConfig

VOCABULARY = 50
REFUSED: dict[str, dict[str, Any]] = {
    "multi_modal_data": {"multi_modal_data": {"image": []}},
    "stop_conditions.max_thinking_tokens": {"stop_conditions": {"max_thinking_tokens": 5}},
    "sampling_options.length_penalty": {"sampling_options": {"length_penalty": 2}},
    "sampling_options.guided_decoding.whitespace_pattern": {
        "sampling_options": {"guided_decoding": {"json": {}, "whitespace_pattern": "x"}}
    },
    "output_options.prompt_logprobs": {"output_options": {"prompt_logprobs": 1}},
}
WRONG: dict[str, dict[str, Any]] = {
    "temperature": {"temperature": -1},
    "top_p": {"top_p": 0},
    "min_p": {"min_p": 2},
    "repetition_penalty": {"repetition_penalty": 0},
    "logit_bias": {"logit_bias": {str(VOCABULARY): 1}},
}


def read(**fields: Any) -> Any:
    return read_request({"token_ids": [1, 2, 3], **fields})


@pytest.mark.parametrize("field", REFUSED)
def test_what_transformers_cannot_do_is_refused_by_name(field: str) -> None:
    with pytest.raises(RequestError, match=f"`{field}` is not supported"):
        read(**REFUSED[field])


@pytest.mark.parametrize("field", WRONG)
def test_values_that_no_processor_takes_are_refused(field: str) -> None:
    with pytest.raises(RequestError, match=f"`{field}` must be"):
        read(sampling_options=WRONG[field]).resolve_sampling(GenerationConfig(), VOCABULARY)


def test_a_request_that_is_no_request_is_refused() -> None:
    with pytest.raises(RequestError, match="is not in Dynamo's form"):
        read_request({"token_ids": "one"})


def test_the_client_s_options_precede_the_model_s() -> None:
    config = GenerationConfig(temperature=0.5, top_k=7)
    sampling = read(sampling_options={"temperature": 0.25}).resolve_sampling(config, VOCABULARY)
    assert (sampling.temperature, sampling.top_k, sampling.top_p) == (0.25, 7, 1.0)


def test_stop_tokens_are_the_model_s_and_the_client_s() -> None:
    stops: dict[str, Any] = {"stop_token_ids": [9], "stop_token_ids_hidden": [8]}
    assert read(stop_conditions=stops, eos_token_ids=[7]).find_stops([6]) == [6, 7, 8, 9]
    stops["ignore_eos"] = True
    assert read(stop_conditions=stops, eos_token_ids=[7]).find_stops([6]) == [8, 9]


def test_new_tokens_fit_behind_the_prompt() -> None:
    assert read().limit_tokens(10) == 7
    assert read(stop_conditions={"max_tokens": 5}).limit_tokens(10) == 5
    assert read(stop_conditions={"max_tokens": 50}).limit_tokens(10) == 7
    with pytest.raises(RequestError, match="`prompt` has 3 tokens; at most 2 are allowed"):
        read().limit_tokens(3)
