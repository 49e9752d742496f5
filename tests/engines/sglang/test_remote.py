"""The messages of SGLang's gRPC server: each field arrives, or is refused by its name."""

from __future__ import annotations

from typing import Any

import pytest
from backedge.base.errors import RequestError
from backedge.base.json_types import JsonObject
from backedge.engines.sglang.remote import build_message
from google.protobuf.json_format import MessageToDict

SAMPLING, STOPS = "sampling_options", "stop_conditions"
# Sent as they are: 0 would be meant.
SENT = {"temperature": 1.0, "topP": 1.0, "n": 1, "skipSpecialTokens": True}


def build(name: str, **fields: Any) -> JsonObject:
    return {"token_ids": [3, 4], name: fields}


@pytest.mark.parametrize(
    ("request_", "sampling"),
    [
        (build(SAMPLING, n=2, top_p=0.5, top_k=-1), {"n": 2, "topP": 0.5, "topK": -1}),
        (build(SAMPLING, min_p=0.5, logit_bias={"5": 1.5}), {"minP": 0.5, "logitBias": {"5": 1.5}}),
        (build(SAMPLING, frequency_penalty=1, presence_penalty=2, repetition_penalty=3),
         {"frequencyPenalty": 1.0, "presencePenalty": 2.0, "repetitionPenalty": 3.0}),
        (build(SAMPLING, guided_decoding={"json": {"a": 1}}), {"jsonSchema": '{"a": 1}'}),
        (build(SAMPLING, guided_decoding={"regex": "a+"}), {"regex": "a+"}),
        (build(SAMPLING, guided_decoding={"choice": ["a.", "b"]}), {"regex": r"(a\.)|(b)"}),
        (build(SAMPLING, guided_decoding={"grammar": "g"}), {"ebnfGrammar": "g"}),
        (build(SAMPLING, guided_decoding={"structural_tag": {"t": 1}}),
         {"structuralTag": '{"t": 1}'}),
        (build(STOPS, max_tokens=9, min_tokens=2, ignore_eos=True),
         {"maxNewTokens": 9, "minNewTokens": 2, "ignoreEos": True}),
        (build(STOPS, stop_token_ids=[1], stop_token_ids_hidden=[3], stop=["x"]),
         {"stopTokenIds": [1, 3]}),
    ],
)  # fmt: skip
def test_fields_arrive(request_: JsonObject, sampling: JsonObject) -> None:
    message = MessageToDict(build_message(request_, "id", {}))
    assert message == {
        "requestId": "id",
        "tokenized": {"inputIds": [3, 4]},
        "samplingParams": {**SENT, **sampling},
        "stream": True,
    }


def test_a_temperature_of_0_is_not_the_default() -> None:
    message = build_message(build(SAMPLING, temperature=0), "id", {"temperature": 0.5})
    assert message.sampling_params.temperature == 0
    message = build_message(build(SAMPLING, temperature=None), "id", {"temperature": 0.5})
    assert message.sampling_params.temperature == 0.5


def test_fields_beside_the_sampling() -> None:
    message = build_message(
        {
            **build("output_options", logprobs=2),
            "require_reasoning": True,
            "routing": {"dp_rank": 1},
        },
        "id",
        {},
    )
    assert (message.return_logprob, message.top_logprobs_num) == (True, 2)
    assert (message.require_reasoning, message.data_parallel_rank) == (True, 1)


@pytest.mark.parametrize(
    ("fields", "start", "alternatives"),
    [
        ({"logprobs": 2}, -1, 2),
        ({"prompt_logprobs": 3}, 0, 3),
        ({"logprobs": 2, "prompt_logprobs": 0}, 0, 2),
        ({"prompt_logprobs": 0, "logprobs": 2}, 0, 2),
    ],
)
def test_probabilities(fields: JsonObject, start: int, alternatives: int) -> None:
    message = build_message(build("output_options", **fields), "id", {})
    assert message.return_logprob
    assert (message.logprob_start_len, message.top_logprobs_num) == (start, alternatives)


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (build(SAMPLING, seed=1), "sampling_options.seed"),
        (build(STOPS, max_thinking_tokens=5), "stop_conditions.max_thinking_tokens"),
        ({"token_ids": [3], "multi_modal_data": {"a": 1}}, "multi_modal_data"),
    ],
)
def test_what_cannot_be_said_is_refused(request_: JsonObject, field: str) -> None:
    with pytest.raises(RequestError) as refused:
        build_message(request_, "id", {})
    assert refused.value.field == field
