"""The request as Dynamo routes it."""

import json

from backedge.frontend.request.preprocessed_request import (
    EngineFields,
    ReasoningParserKwargs,
    to_json_object,
)

from tests.frontend.chat_requests import TOOL, preprocessed


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


def test_fields_of_engines_are_left_out_unless_set():
    kwargs = {"enable_thinking": False}
    fields = EngineFields(reasoning_parser_kwargs=ReasoningParserKwargs(kwargs))
    assert to_json_object(fields) == {"reasoning_parser_kwargs": {"chat_template_kwargs": kwargs}}
    assert fields.chat_template_kwargs == kwargs
    assert to_json_object(EngineFields()) == {}
    assert EngineFields().chat_template_kwargs is None


def test_a_long_prompt_is_not_copied():
    token_ids = list(range(1000))
    assert to_json_object(EngineFields(extra_args={"x": token_ids}))["extra_args"]["x"] is token_ids


def test_everything_routed_can_be_sent():
    assert json.dumps(preprocessed({"tools": [TOOL], "tool_choice": "required"}))
