"""SGLang in another process, by its gRPC server: `sglang.launch_server --smg-grpc-mode`."""

from __future__ import annotations

import re

import grpc
import msgspec
from smg_grpc_proto import sglang_scheduler_pb2 as messages
from smg_grpc_proto import sglang_scheduler_pb2_grpc as services

from ...base.json_types import JsonObject
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


def describe(server: messages.GetServerInfoResponse) -> JsonObject:
    """Return the fields of `ServedModel` that the server names."""
    arguments = server.server_args
    return {
        "block_size": read_number(arguments, "page_size"),
        "max_num_seqs": read_number(server.scheduler_info, "max_running_requests"),
        "data_parallel_size": read_number(arguments, "dp_size"),
        "grammar_waits": bool(arguments.fields["reasoning_parser"].string_value),
    }


def read_number(found: messages.Struct, name: str) -> int | None:
    """Return a number of a `google.protobuf.Struct`, None if it has none."""
    return int(found.fields[name].number_value) or None


def build_message(
    request: JsonObject, request_id: str, defaults: JsonObject
) -> messages.GenerateRequest:
    """Return a request of Dynamo's form in SGLang's. Raises `RequestError`.

    defaults: the sampling options that the model sets by itself.
    """
    # vLLM's message can leave them out; in this one 0 would be meant.
    sampling = {"temperature": 1.0, "top_p": 1.0, "n": 1}
    message = build_fields(request, request_id, FIELDS, defaults, sampling)
    message["require_reasoning"] = bool(request.get("require_reasoning"))
    return messages.GenerateRequest(**message)


def put_logprobs(start: int) -> Put:
    """Ask for the probabilities of the tokens from `start` on, -1: of generated ones.

    The server knows one number of alternatives, and one start.
    """

    def put(message: JsonObject, value: object) -> None:
        alternatives = max(message.get("top_logprobs_num", 0), msgspec.convert(value, int))
        first = max(message.get("logprob_start_len", -1), start)
        message |= {
            "return_logprob": True,
            "top_logprobs_num": alternatives,
            "logprob_start_len": first,
        }

    return put


def put_choices(message: JsonObject, value: object) -> None:
    """Write the choices as the pattern that matches one of them."""
    choices = msgspec.convert(value, list[str])
    message["sampling_params"]["regex"] = "|".join(f"({re.escape(choice)})" for choice in choices)


FIELDS: Fields = {
    "sampling_options": {
        **COMMON["sampling_options"],
        "top_k": put_sampling("top_k"),
        "logit_bias": put_sampling("logit_bias"),
        "guided_decoding": put_constraint(
            {
                "json": put_json("json_schema"),
                "regex": put_sampling("regex"),
                "grammar": put_sampling("ebnf_grammar"),
                "structural_tag": put_json("structural_tag"),
                "choice": put_choices,
            }
        ),
    },
    "stop_conditions": {
        **COMMON["stop_conditions"],
        "max_tokens": put_sampling("max_new_tokens"),
        "min_tokens": put_sampling("min_new_tokens"),
    },
    "output_options": {
        **COMMON["output_options"],
        "logprobs": put_logprobs(-1),
        "prompt_logprobs": put_logprobs(0),
    },
}


def connect(channel: grpc.aio.Channel) -> GrpcServer:
    """Return the server at the other end of the channel."""
    return GrpcServer(
        services.SglangSchedulerStub(channel), messages, FIELDS, build_message, describe
    )
