"""The request as Dynamo routes it."""

import json

import msgspec
import pytest
from backedge.frontend.request.preprocessed_request import (
    EngineFields,
    Prompt,
    ReasoningParserKwargs,
    build_preprocessed_request,
    to_json_object,
)

from tests.frontend.chat_requests import FILES, TOOL, chat_request, preprocessed


def test_nothing_asked_for_is_what_dynamo_sends():
    assert preprocessed({}) == {
        "model": "m",
        "token_ids": [1, 2, 3],
        "stop_conditions": {
            "max_tokens": 97,
            "stop": [],
            "stop_token_ids": [551],
            "min_tokens": 0,
            "ignore_eos": False,
            "max_thinking_tokens": None,
        },
        "sampling_options": {
            "n": 1,
            "seed": None,
            "presence_penalty": 0.0,
            "frequency_penalty": 0.0,
            "repetition_penalty": 1.0,
            "temperature": 0.0,  # the model's own, of generation_config.json
            "top_p": 1.0,
            "top_k": None,
            "min_p": None,
        },
        "output_options": {"logprobs": None, "prompt_logprobs": None, "skip_special_tokens": True},
        "eos_token_ids": [553],
        "annotations": [],
        "routing": None,
    }


def test_several_choices_at_temperature_0_are_the_likeliest_tokens():
    """vLLM refuses several greedy choices; Dynamo does so only where the request says 0."""
    for fields in ({"n": 3, "temperature": 0}, {"n": 3}):
        sampling = preprocessed(fields)["sampling_options"]
        assert (sampling["n"], sampling["temperature"], sampling["top_k"]) == (3, 1.0, 1)
    sampling = preprocessed({"n": 3, "temperature": 0.5})["sampling_options"]
    assert (sampling["n"], sampling["temperature"], sampling["top_k"]) == (3, 0.5, None)


@pytest.mark.parametrize(
    ("fields", "alternatives"),
    [
        ({"prompt_logprobs": 2}, 2),
        ({"prompt_logprobs": -1}, 2**32 - 1),
        ({"prompt_logprobs": 2, "stream": True}, None),
        (
            {
                "prompt_logprobs": 2,
                "stream": True,
                "nvext": {"extra_fields": ["prompt_logprobs"]},
            },
            2,
        ),
    ],
)
def test_probabilities_of_the_prompt_are_computed_if_they_are_shown(fields, alternatives):
    assert preprocessed(fields)["output_options"]["prompt_logprobs"] == alternatives


def test_fields_of_engines_are_left_out_unless_set():
    kwargs = {"enable_thinking": False}
    fields = EngineFields(reasoning_parser_kwargs=ReasoningParserKwargs(kwargs))
    json_fields = {"reasoning_parser_kwargs": {"chat_template_kwargs": kwargs}}
    assert msgspec.to_builtins(fields) == json_fields
    assert fields.chat_template_kwargs == kwargs
    assert msgspec.to_builtins(EngineFields()) == {}
    assert EngineFields().chat_template_kwargs is None


def test_a_long_prompt_is_not_copied():
    token_ids = list(range(1000))
    fields = EngineFields(require_reasoning=True)
    prompt = Prompt(token_ids, engine_fields=fields)
    request = build_preprocessed_request(chat_request(), prompt, FILES, None)
    made = to_json_object(request)
    assert made["token_ids"] is token_ids
    assert made["require_reasoning"] is True
    assert request.token_ids is token_ids


def test_everything_routed_can_be_sent():
    assert json.dumps(preprocessed({"tools": [TOOL], "tool_choice": "required"}))
