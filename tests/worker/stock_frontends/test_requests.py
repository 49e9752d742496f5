"""Which requests are a stock frontend's, in the form in which Dynamo 1.6 sends them."""

import pytest
from backedge.postprocess.messages import KEY
from backedge.tokenization.detokenizer import DetokenizerOptions
from backedge.worker.stock_frontends import read_stock_params

RUST = {
    "model": "tiny",
    "token_ids": [1, 2, 3],
    "stop_conditions": {
        "max_tokens": 20,
        "stop": ["a", "b"],
        "stop_token_ids": None,
        "min_tokens": 3,
        "stop_token_ids_visible": None,
        "stop_token_ids_hidden": [5],
        "ignore_eos": None,
    },
    "sampling_options": {"n": 2, "best_of": None, "include_stop_str_in_output": True},
    "output_options": {"logprobs": None, "prompt_logprobs": None, "skip_special_tokens": None},
    "eos_token_ids": [5],
    "mdc_sum": "d6235d64",
    "annotations": [],
    "routing": {},
}


def test_what_post_processing_has_to_know():
    params = read_stock_params(RUST, "request-1")
    assert params is not None
    assert (params.response_id, params.model, params.prompt_length) == ("request-1", "tiny", 3)
    assert (params.n, params.stream, params.stop, params.min_tokens) == (2, True, ["a", "b"], 3)
    assert params.include_stop_str_in_output
    assert params.detokenizer == DetokenizerOptions()
    assert params.parser.tools == []


@pytest.mark.parametrize(("skip", "skips"), [(None, True), (True, True), (False, False)])
def test_special_tokens_are_hidden_unless_the_client_wants_them(skip, skips):
    request = {**RUST, "output_options": {"skip_special_tokens": skip}}
    params = read_stock_params(request, "r")
    assert params is not None
    assert params.detokenizer.skip_special_tokens is skips


def test_a_request_may_say_nothing():
    params = read_stock_params({"mdc_sum": "1"}, "r")
    assert params is not None
    assert (params.n, params.stop, params.prompt_length, params.model) == (1, [], 0, "")


UNTOUCHED = {
    "of a Python frontend": {"mdc_sum": None},
    "of a Backedge of a newer version": {"extra_args": {KEY: '{"version": 999}'}},
    "for tokens": {"extra_args": {"vllm_tito": {}}},
    "with text that the frontend holds back": {"jail_seed": "EN"},
    "with stop tokens that are shown": {
        "stop_conditions": {"stop_token_ids_visible": [7]},
    },
    "with an empty stop string": {"stop_conditions": {"stop": [""]}},
    "with more stop strings than we take": {"stop_conditions": {"stop": ["x"] * 2000}},
}


@pytest.mark.parametrize("fields", UNTOUCHED.values(), ids=UNTOUCHED)
def test_others_pass_untouched(fields):
    assert read_stock_params({**RUST, **fields}, "r") is None
