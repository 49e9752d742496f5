"""Streams of an engine's gRPC server as outputs of Dynamo's form."""

from __future__ import annotations

import asyncio
import tracemalloc
from types import SimpleNamespace
from typing import Any

import pytest
from backedge.base.errors import ProtocolError, SetupError
from backedge.base.limits import MAX_MESSAGE_TOKENS, MAX_RANKS
from backedge.engines.sglang import remote as sglang
from backedge.engines.vllm import remote as vllm
from backedge.worker.grpc_server import GrpcServer, ServedModel, StreamedRequest, read_defaults
from smg_grpc_proto import sglang_scheduler_pb2 as sglang_messages
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
    asked = {"sampling_options": {"n": 2}, "stop_conditions": {"max_tokens": 3}}
    request = StreamedRequest(None, asked, [9])  # type: ignore[arg-type]  # it is not read
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
    request = StreamedRequest(None, {"sampling_options": {"n": 2}}, [])  # type: ignore[arg-type]  # it is not read
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
    assert read_defaults('{"top_p": "x"}', fields) == {}


def probabilities() -> messages.GenerateResponse:
    response = chunk(0, 5)
    top = messages.TopLogProbs(values=[-1.0], token_ids=[5, 6])
    response.chunk.output_logprobs.top_logprobs.append(top)
    return response


def prompt_logprobs() -> messages.GenerateResponse:
    response = chunk(0, 5)
    response.chunk.input_logprobs.token_ids.extend([1, 2])
    return response


@pytest.mark.parametrize(
    ("response", "problem"),
    [
        (chunk(7, 5), "choice 7; the request has 2"),
        (chunk(2, 9), "choice 2; the request has 2"),
        (end((1 << 32) - 1, "stop"), "choice 4294967295"),
        (chunk(0, *range(1000)), "1000 tokens; the request has max_tokens 3"),
        (probabilities(), "different lengths"),
        (prompt_logprobs(), "different lengths"),
    ],
)
def test_an_engine_that_sends_what_was_not_asked_for(
    response: messages.GenerateResponse, problem: str
) -> None:
    asked = {
        "sampling_options": {"n": 2},
        "stop_conditions": {"max_tokens": 3},
        "output_options": {"logprobs": 1},
    }
    request = StreamedRequest(None, asked, [9])  # type: ignore[arg-type]  # it is not read
    with pytest.raises(ProtocolError, match=problem):
        request.read(response)


def test_a_message_of_too_many_tokens_is_refused_before_they_are_copied() -> None:
    """Also for a request without `max_tokens`."""
    request = StreamedRequest(None, {}, [])  # type: ignore[arg-type]  # it is not read
    response = chunk(0, *range(MAX_MESSAGE_TOKENS + 1))
    tracemalloc.start()
    with pytest.raises(ProtocolError, match=f"{MAX_MESSAGE_TOKENS + 1} tokens in one message"):
        request.read(response)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < MAX_MESSAGE_TOKENS


def described(engine: Any, of: Any, model: dict[str, Any], server: Any) -> ServedModel:
    """Return what a server's answers say of its model."""

    async def answer(found: Any) -> Any:
        return found

    stub: Any = SimpleNamespace(
        GetModelInfo=lambda *_, **__: answer(of.GetModelInfoResponse(**model)),
        GetServerInfo=lambda *_, **__: answer(server),
    )
    found = GrpcServer(stub, of, engine.FIELDS, engine.build_message, engine.describe)
    return asyncio.run(found.describe(1.0))


MOST = (1 << 32) - 1
NOTHING = messages.GetServerInfoResponse()


@pytest.mark.parametrize(
    ("model", "server"),
    [
        ({"max_context_length": MOST}, NOTHING),
        ({"vocab_size": MOST}, NOTHING),
        ({"default_sampling_params_json": "{"}, NOTHING),
        ({"default_sampling_params_json": "[]"}, NOTHING),
        ({"default_sampling_params_json": "[" * 100_000}, NOTHING),
        ({}, messages.GetServerInfoResponse(data_parallel_size=MAX_RANKS + 1)),
        ({}, messages.GetServerInfoResponse(block_size=-1)),
    ],
)
def test_a_server_that_lies_about_its_model(
    model: dict[str, Any], server: messages.GetServerInfoResponse
) -> None:
    with pytest.raises(SetupError, match="describes its model wrongly"):
        described(vllm, messages, model, server)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -1.0, 1e300])
def test_numbers_of_sglang_that_lie(number: float) -> None:
    server = sglang_messages.GetServerInfoResponse()
    server.server_args.fields["page_size"].number_value = number
    with pytest.raises(SetupError, match="describes its model wrongly"):
        described(sglang, sglang_messages, {}, server)
