"""The messages of vLLM's gRPC server: each field arrives, or is refused by its name."""

from __future__ import annotations

from typing import Any

import pytest
from backedge.base.errors import RequestError
from backedge.base.json_types import JsonObject
from backedge.engines.vllm.remote import build_message
from google.protobuf.json_format import MessageToDict

SAMPLING, STOPS, OUTPUT = "sampling_options", "stop_conditions", "output_options"


def build(name: str, **fields: Any) -> JsonObject:
    return {"token_ids": [3, 4], name: fields}


@pytest.mark.parametrize(
    ("request_", "sampling"),
    [
        (build(SAMPLING, n=2, temperature=0.5, top_p=0.25), {"n": 2, "temperature": 0.5,
                                                             "topP": 0.25}),
        (build(SAMPLING, temperature=0), {"temperature": 0.0}),
        (build(SAMPLING, top_k=-1), {}),
        (build(SAMPLING, top_k=7, min_p=0.5), {"topK": 7, "minP": 0.5}),
        (build(SAMPLING, frequency_penalty=1, presence_penalty=-1), {"frequencyPenalty": 1.0,
                                                                     "presencePenalty": -1.0}),
        (build(SAMPLING, repetition_penalty=2, seed=-5), {"repetitionPenalty": 2.0, "seed": -5}),
        (build(SAMPLING, logit_bias={"5": 1.5}), {"logitBias": {"5": 1.5}}),
        (build(SAMPLING, guided_decoding={"json": {"a": 1}}), {"jsonSchema": '{"a": 1}'}),
        (build(SAMPLING, guided_decoding={"json": None, "regex": "a+"}), {"regex": "a+"}),
        (build(SAMPLING, guided_decoding={"choice": ["a"]}), {"choice": {"choices": ["a"]}}),
        (build(SAMPLING, guided_decoding={"grammar": "g"}), {"grammar": "g"}),
        (build(SAMPLING, guided_decoding={"structural_tag": {"t": 1}}),
         {"structuralTag": '{"t": 1}'}),
        (build(STOPS, max_tokens=9, min_tokens=2, ignore_eos=True), {"maxTokens": 9,
                                                                     "minTokens": 2,
                                                                     "ignoreEos": True}),
        (build(STOPS, stop_token_ids=[1, 2], stop_token_ids_hidden=[2, 3], stop=["x"]),
         {"stopTokenIds": [1, 2, 2, 3]}),
        (build(OUTPUT, logprobs=0, skip_special_tokens=False), {"logprobs": 0}),
        (build(OUTPUT, prompt_logprobs=2), {"promptLogprobs": 2}),
        (build(OUTPUT, prompt_logprobs=(1 << 32) - 1), {"promptLogprobs": -1}),
        ({"token_ids": [3, 4], "reasoning_ended": True}, {"grammarFromFirstToken": True}),
        ({"token_ids": [3, 4], "extra_args": {"reasoning_ended": True}},
         {"grammarFromFirstToken": True}),
    ],
)  # fmt: skip
def test_fields_arrive(request_: JsonObject, sampling: JsonObject) -> None:
    message = MessageToDict(build_message(request_, "id", {}))
    assert message == {
        "requestId": "id",
        "tokenized": {"inputIds": [3, 4]},
        "samplingParams": {"skipSpecialTokens": True, **sampling},
        "stream": True,
    }


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (build(SAMPLING, seed=1 << 31), "seed"),
        (build(SAMPLING, length_penalty=2), "sampling_options.length_penalty"),
        (build(SAMPLING, guided_decoding={"regex": "a", "whitespace_pattern": " "}),
         "sampling_options.guided_decoding.whitespace_pattern"),
        (build(STOPS, max_thinking_tokens=5), "stop_conditions.max_thinking_tokens"),
        (build(OUTPUT, prompt_logprobs=(1 << 32) - 2), "prompt_logprobs"),
        ({"token_ids": [3], "multi_modal_data": {"image_url": []} | {"a": 1}}, "multi_modal_data"),
        ({"token_ids": [3], "prefill_result": {"a": 1}}, "prefill_result"),
    ],
)  # fmt: skip
def test_what_cannot_be_said_is_refused(request_: JsonObject, field: str) -> None:
    with pytest.raises(RequestError) as refused:
        build_message(request_, "id", {})
    assert refused.value.field == field


def test_neutral_values_of_unknown_fields_pass() -> None:
    build_message(build(SAMPLING, use_beam_search=False, length_penalty=None), "id", {})


def test_the_rank_that_the_router_chose() -> None:
    assert (
        build_message({"token_ids": [3], "routing": {"dp_rank": 2}}, "id", {}).data_parallel_rank
        == 2
    )
