"""Streams of an engine's gRPC server as outputs of Dynamo's form."""

from __future__ import annotations

from typing import Any

from backedge.worker.grpc_server import StreamedRequest, read_defaults
from smg_grpc_proto import vllm_engine_pb2 as messages


def chunk(index: int, *token_ids: int) -> messages.GenerateResponse:
    return messages.GenerateResponse(
        chunk=messages.GenerateStreamChunk(index=index, token_ids=token_ids)
    )


def end(index: int, reason: str, **fields: Any) -> messages.GenerateResponse:
    return messages.GenerateResponse(
        complete=messages.GenerateComplete(
            index=index, finish_reason=reason, prompt_tokens=4, cached_tokens=2, **fields
        )
    )


def test_the_last_tokens_come_with_the_end() -> None:
    """Only so does a reader know that a stop token is no text."""
    request = StreamedRequest(None, {"stop_conditions": {"max_tokens": 3}}, [9])  # type: ignore[arg-type]  # it is not read
    read = request.read
    assert read(chunk(0, 5)) == [{"index": 0, "token_ids": [5]}]
    assert read(chunk(1, 9)) == []
    assert read(chunk(1, 6)) == [{"index": 1, "token_ids": [9]}, {"index": 1, "token_ids": [6]}]
    assert read(chunk(0, 9)) == []
    usage = {
        "prompt_tokens": 4,
        "completion_tokens": 4,
        "total_tokens": 8,
        "prompt_tokens_details": {"cached_tokens": 2},
    }
    assert read(end(0, "stop", output_ids=[9], matched_token_id=9)) == [
        {
            "index": 0,
            "token_ids": [9],
            "finish_reason": "stop",
            "stop_reason": 9,
            "completion_usage": usage,
        }
    ]
    assert read(chunk(1, 7)) == []
    (last,) = read(end(1, "length", output_ids=[7]))
    assert (last["token_ids"], last["finish_reason"]) == ([7], "length")


def test_probabilities() -> None:
    found = messages.OutputLogProbs(
        token_logprobs=[-1.0],
        token_ids=[5],
        top_logprobs=[messages.TopLogProbs(values=[-1.0, -0.5], token_ids=[5, 6])],
    )
    response = messages.GenerateResponse(
        chunk=messages.GenerateStreamChunk(token_ids=[5], output_logprobs=found)
    )
    request = StreamedRequest(None, {"output_options": {"logprobs": 2}}, [])  # type: ignore[arg-type]  # it is not read
    (output,) = request.read(response)
    assert output["log_probs"] == [-1.0]
    assert output["top_logprobs"] == [
        [
            {"rank": 1, "token_id": 6, "logprob": -0.5},
            {"rank": 2, "token_id": 5, "logprob": -1.0},
        ]
    ]


def test_probabilities_of_the_prompt_come_with_each_end() -> None:
    values = [messages.InputTokenLogProb(), messages.InputTokenLogProb(value=-1.0)]
    top = messages.TopLogProbs(values=[-1.0, -0.5], token_ids=[5, 6])
    tops = [messages.TopLogProbs(), top]
    found = messages.InputLogProbs(token_logprobs=values, token_ids=[4, 5], top_logprobs=tops)
    first = chunk(0, 7)
    first.chunk.input_logprobs.CopyFrom(found)
    request = StreamedRequest(None, {}, [])  # type: ignore[arg-type]  # it is not read
    assert "engine_data" not in request.read(first)[0]
    for index in (0, 1):
        (last,) = request.read(end(index, "stop"))
        prompt = [None, {"5": {"logprob": -1.0}, "6": {"logprob": -0.5}}]
        assert last["engine_data"] == {"prompt_logprobs": prompt}


def test_probabilities_that_were_not_asked_for_are_left_out() -> None:
    """SGLang gives those of the generated tokens with those of the prompt."""
    first = chunk(0, 7)
    first.chunk.output_logprobs.token_logprobs.append(-1.0)
    request = StreamedRequest(None, {"output_options": {"prompt_logprobs": 0}}, [])  # type: ignore[arg-type]  # it is not read
    assert request.read(first) == [{"index": 0, "token_ids": [7]}]


def test_the_end_of_the_text_is_no_stop_token_of_the_client() -> None:
    request = StreamedRequest(None, {"eos_token_ids": [9]}, [])  # type: ignore[arg-type]  # it is not read
    assert request.read(chunk(0, 9)) == []
    (last,) = request.read(end(0, "stop", matched_token_id=9))
    assert last["token_ids"] == [9]
    assert "stop_reason" not in last


def test_defaults_of_the_model() -> None:
    fields: Any = {"sampling_options": {"top_p": None}}
    assert read_defaults('{"top_p": 0.5, "other": 1}', fields) == {"top_p": 0.5}
    assert read_defaults("", fields) == {}
