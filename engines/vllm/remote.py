"""vLLM in another process, by its gRPC server: `vllm serve MODEL --grpc`."""

from __future__ import annotations

import grpc
import msgspec
from smg_grpc_proto import vllm_engine_pb2 as messages
from smg_grpc_proto import vllm_engine_pb2_grpc as services

from ...base.errors import RequestError
from ...base.json_types import JsonObject
from ...base.ranges import ALL_ALTERNATIVES
from ...worker.grpc_server import (
    COMMON,
    Fields,
    GrpcServer,
    Put,
    build_fields,
    put_constraint,
    put_json,
    put_sampling,
)

_I32 = (-(1 << 31), (1 << 31) - 1)
GRAMMAR_WAITS = {"after_reasoning": True, "first_token": False}


def describe(server: messages.GetServerInfoResponse) -> JsonObject:
    """Return the fields of `ServedModel` that the server names."""
    return {
        "block_size": server.block_size or None,
        "max_num_seqs": server.max_num_seqs or None,
        "data_parallel_size": server.data_parallel_size or None,
        "grammar_waits": GRAMMAR_WAITS.get(server.constrained_decoding_start),
    }


def build_message(
    request: JsonObject, request_id: str, defaults: JsonObject
) -> messages.GenerateRequest:
    """Return a request of Dynamo's form in vLLM's. Raises `RequestError`.

    defaults: the sampling options that the model sets by itself.
    """
    sampling = {"grammar_from_first_token": answers_at_once(request)}
    message = build_fields(request, request_id, FIELDS, defaults, sampling)
    return messages.GenerateRequest(**message)


def answers_at_once(request: JsonObject) -> bool:
    """Whether no reasoning precedes the answer: vLLM's server would wait for its end."""
    # Dynamo's router drops the field; its own workers read it from there, too.
    more = request.get("extra_args") or {}
    return bool(request.get("reasoning_ended", more.get("reasoning_ended")))


def put_i32(field: str) -> Put:
    """Write a number. Raises `RequestError` for more than 32 bits with a sign."""

    def put(message: JsonObject, value: object) -> None:
        if not isinstance(value, int) or not _I32[0] <= value <= _I32[1]:
            raise RequestError.wrong(field, value, "a number of 32 bits for vLLM's gRPC server")
        message["sampling_params"][field] = value

    return put


def put_alternatives(field: str) -> Put:
    """Write a number of alternatives of each token; -1 is vLLM's word for all."""
    put = put_i32(field)
    return lambda message, value: put(message, -1 if value == ALL_ALTERNATIVES else value)


def put_top_k(message: JsonObject, value: object) -> None:
    """Write the number of candidates; 0 is vLLM's word for all."""
    message["sampling_params"]["top_k"] = max(msgspec.convert(value, int), 0)


def put_bias(message: JsonObject, value: object) -> None:
    """Write the bias of each token id."""
    message["sampling_params"]["logit_bias"] = msgspec.convert(
        value, dict[int, float], strict=False
    )


def put_choices(message: JsonObject, value: object) -> None:
    """Write the choices, one of which is the answer."""
    message["sampling_params"]["choice"] = {"choices": value}


FIELDS: Fields = {
    "sampling_options": {
        **COMMON["sampling_options"],
        "top_k": put_top_k,
        "seed": put_i32("seed"),
        "logit_bias": put_bias,
        "guided_decoding": put_constraint(
            {
                "json": put_json("json_schema"),
                "regex": put_sampling("regex"),
                "grammar": put_sampling("grammar"),
                "structural_tag": put_json("structural_tag"),
                "choice": put_choices,
            }
        ),
    },
    "stop_conditions": {
        **COMMON["stop_conditions"],
        "max_tokens": put_sampling("max_tokens"),
        "min_tokens": put_sampling("min_tokens"),
    },
    "output_options": {
        **COMMON["output_options"],
        "logprobs": put_alternatives("logprobs"),
        "prompt_logprobs": put_alternatives("prompt_logprobs"),
    },
}


def connect(channel: grpc.aio.Channel) -> GrpcServer:
    """Return the server at the other end of the channel."""
    return GrpcServer(services.VllmEngineStub(channel), messages, FIELDS, build_message, describe)
