"""Stop conditions and sampling options: the client's, then the model's, then Dynamo's defaults."""

import pytest
from backedge.base.errors import RequestError
from backedge.frontend.request.preprocessed_request import build_sampling_options
from backedge.tokenization.model_files import GenerationConfig

from tests.frontend.chat_requests import chat_request, preprocessed

# request, group, field, value
FIELDS = [
    ({"max_tokens": 5}, "stop_conditions", "max_tokens", 5),
    ({"max_tokens": 5, "max_completion_tokens": 6}, "stop_conditions", "max_tokens", 6),
    ({"stop": "a"}, "stop_conditions", "stop", ["a"]),
    ({"stop": ["a", "b"]}, "stop_conditions", "stop", ["a", "b"]),
    ({"stop_token_ids": [7, 551, 7]}, "stop_conditions", "stop_token_ids", [7, 551]),
    ({"ignore_eos": True}, "stop_conditions", "stop_token_ids", []),
    ({"thinking_token_budget": 9}, "stop_conditions", "max_thinking_tokens", 9),
    ({"temperature": 0.5}, "sampling_options", "temperature", 0.5),
    ({"top_k": 0}, "sampling_options", "top_k", 0),
    ({"top_k": 20}, "sampling_options", "top_k", 20),
    ({"n": 2}, "sampling_options", "n", 2),
    ({"seed": 3}, "sampling_options", "seed", 3),
    ({"logprobs": True}, "output_options", "logprobs", 0),
    ({"logprobs": True, "top_logprobs": 4}, "output_options", "logprobs", 4),
    ({"skip_special_tokens": False}, "output_options", "skip_special_tokens", False),
]


@pytest.mark.parametrize(("fields", "group", "field", "value"), FIELDS)
def test_what_is_asked_for_is_routed(fields, group, field, value):
    assert preprocessed(fields)[group][field] == value


def test_a_prompt_without_room_for_an_answer_is_refused():
    with pytest.raises(RequestError, match="at most 2 tokens"):
        preprocessed({}, context_length=3)


def test_a_worker_that_does_not_say_its_context_sets_the_limit_itself():
    assert preprocessed({}, context_length=None)["stop_conditions"]["max_tokens"] is None


# generation_config.json, request, option, value
MODELS = [
    ({"temperature": 0.7}, {}, "temperature", 0.7),
    ({"temperature": 0.7}, {"temperature": 0.0}, "temperature", 0.0),
    ({}, {}, "temperature", 1.0),
    ({"top_k": 20}, {}, "top_k", 20),
    ({"top_k": 20}, {"top_k": 0}, "top_k", 0),
    ({"top_k": 0}, {}, "top_k", None),
    ({"top_k": -1}, {}, "top_k", None),
    ({"min_p": 0.1}, {}, "min_p", 0.1),
]


@pytest.mark.parametrize(("model", "fields", "option", "value"), MODELS)
def test_the_models_own_options_are_the_defaults(model, fields, option, value):
    config = GenerationConfig(**model)
    options = build_sampling_options(chat_request(**fields), config, None)
    assert getattr(options, option) == value


def test_the_thinking_budget_of_nvext_counts_where_no_other_is_set():
    nvext = {"max_thinking_tokens": 4}
    for fields, budget in (({}, 4), ({"thinking_token_budget": 9}, 9)):
        made = preprocessed({"nvext": nvext, **fields})
        assert made["stop_conditions"]["max_thinking_tokens"] == budget
