"""vLLM in another process, by its gRPC server: `vllm serve MODEL --grpc`.

The messages are those of the package smg-grpc-proto, which vLLM's server uses as well.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable

import grpc
from smg_grpc_proto import vllm_engine_pb2 as messages
from smg_grpc_proto import vllm_engine_pb2_grpc as services

from ...base.errors import RequestError
from ...base.json_types import JsonObject
from ...worker.remote_engine import Call, RemoteRequest, ServedModel

_I32 = (-(1 << 31), (1 << 31) - 1)
GRAMMAR_WAITS = {"after_reasoning": True, "first_token": False}
_NEUTRAL: tuple[object, ...] = (None, False, "", [], {})


class VllmServer:
    """The server of one vLLM engine."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub = services.VllmEngineStub(channel)

    async def describe(self, timeout_s: float) -> ServedModel:
        """Return the model that the server names."""
        model = await self._stub.GetModelInfo(messages.GetModelInfoRequest(), timeout=timeout_s)
        server = await self._stub.GetServerInfo(messages.GetServerInfoRequest(), timeout=timeout_s)
        return ServedModel(
            path=model.model_path,
            context_length=model.max_context_length or None,
            vocabulary_size=model.vocab_size or None,
            block_size=server.block_size or None,
            max_num_seqs=server.max_num_seqs or None,
            data_parallel_size=server.data_parallel_size or None,
            grammar_waits=GRAMMAR_WAITS.get(server.constrained_decoding_start),
        )

    async def is_healthy(self, timeout_s: float) -> bool:
        """Whether the engine can answer."""
        asked = messages.HealthCheckRequest()
        return bool((await self._stub.HealthCheck(asked, timeout=timeout_s)).healthy)

    def ask(self, request: JsonObject, request_id: str) -> RemoteRequest:
        """Start a request. Raises `RequestError` for what the protocol cannot say."""
        message = build_message(request, request_id)
        sampling = message.sampling_params
        stops = frozenset((*sampling.stop_token_ids, *(request.get("eos_token_ids") or ())))
        limit = sampling.max_tokens if sampling.HasField("max_tokens") else sys.maxsize
        return VllmRequest(self._stub.Generate(message), stops, limit)


def build_message(request: JsonObject, request_id: str) -> messages.GenerateRequest:
    """Return a request of Dynamo's form in vLLM's. Raises `RequestError`."""
    refuse_fields("", request, ELSEWHERE)
    sampling = messages.SamplingParams(skip_special_tokens=True)
    for name, fields in FIELDS.items():
        values = request.get(name) or {}
        refuse_fields(f"{name}.", values, set(values) - set(fields))
        for field, value in values.items():
            put = fields.get(field)
            if put is not None and value is not None:
                put(sampling, value)
    sampling.grammar_from_first_token = bool(request.get("reasoning_ended"))
    message = messages.GenerateRequest(
        request_id=request_id,
        tokenized=messages.TokenizedInput(input_ids=request["token_ids"]),
        sampling_params=sampling,
        stream=True,
    )
    rank = (request.get("routing") or {}).get("dp_rank")
    if rank is not None:
        message.data_parallel_rank = rank
    return message


def refuse_fields(prefix: str, values: JsonObject, unknown: Iterable[str]) -> None:
    """Raise `RequestError` for a field of `unknown` that asks for something."""
    for field in unknown:
        if values.get(field) not in _NEUTRAL:
            raise RequestError(
                f"{prefix}{field}", "cannot be said in the protocol of vLLM's gRPC server"
            )


Put = Callable[..., None]
"""Writes the value of a field into a `SamplingParams`, its first argument."""


def put_as(field: str) -> Put:
    """Write the value into the field of this name."""
    return lambda sampling, value: sampling.MergeFrom(messages.SamplingParams(**{field: value}))


def put_json(field: str) -> Put:
    """Write the value as JSON; a text is JSON already."""
    put = put_as(field)
    return lambda sampling, value: put(
        sampling, value if isinstance(value, str) else json.dumps(value)
    )


def put_seed(sampling: messages.SamplingParams, value: int) -> None:
    """Write a seed. Raises `RequestError` for more than 32 bits."""
    if not _I32[0] <= value <= _I32[1]:
        raise RequestError.wrong("seed", value, "a number of 32 bits for vLLM's gRPC server")
    sampling.seed = value


def put_top_k(sampling: messages.SamplingParams, value: int) -> None:
    """Write the number of candidates; 0 is vLLM's word for all."""
    sampling.top_k = max(value, 0)


def put_stop_tokens(sampling: messages.SamplingParams, value: list[int]) -> None:
    """Add stop tokens to those of other fields."""
    sampling.stop_token_ids.extend(each for each in value if each not in sampling.stop_token_ids)


def put_bias(sampling: messages.SamplingParams, value: dict[str, float]) -> None:
    """Write the bias of each token id."""
    for token_id, bias in value.items():
        sampling.logit_bias[int(token_id)] = bias


def put_constraint(sampling: messages.SamplingParams, value: JsonObject) -> None:
    """Write the grammar of the answer. Raises `RequestError`."""
    unknown = set(value) - set(CONSTRAINTS) - {"backend"}
    refuse_fields("sampling_options.guided_decoding.", value, unknown)
    for name, put in CONSTRAINTS.items():
        if value.get(name) is not None:
            put(sampling, value[name])
            return


CONSTRAINTS: dict[str, Put] = {
    "json": put_json("json_schema"),
    "regex": put_as("regex"),
    "grammar": put_as("grammar"),
    "structural_tag": put_json("structural_tag"),
    "choice": lambda sampling, value: sampling.choice.choices.extend(value),
}
# The fields of a request in Dynamo's form. None: post-processing does what the field asks for.
FIELDS: dict[str, dict[str, Put | None]] = {
    "sampling_options": {
        "n": put_as("n"),
        "temperature": put_as("temperature"),
        "top_p": put_as("top_p"),
        "top_k": put_top_k,
        "min_p": put_as("min_p"),
        "frequency_penalty": put_as("frequency_penalty"),
        "presence_penalty": put_as("presence_penalty"),
        "repetition_penalty": put_as("repetition_penalty"),
        "seed": put_seed,
        "logit_bias": put_bias,
        "guided_decoding": put_constraint,
        "best_of": None,
        "include_stop_str_in_output": None,
    },
    "stop_conditions": {
        "max_tokens": put_as("max_tokens"),
        "min_tokens": put_as("min_tokens"),
        "ignore_eos": put_as("ignore_eos"),
        "stop_token_ids": put_stop_tokens,
        "stop_token_ids_hidden": put_stop_tokens,
        "stop": None,
    },
    "output_options": {
        "logprobs": put_as("logprobs"),
        "skip_special_tokens": None,
        "formatted_prompt": None,
    },
}
ELSEWHERE = (
    "multi_modal_data mm_processor_kwargs prompt_embeds prefill_result bootstrap_info "
    "encoder_result"
).split()


class VllmRequest:
    """One request. Its tokens are in chunks; the end of a choice repeats the last ones.

    stops: tokens at which a choice may end. limit: how many tokens a choice may have.
    """

    def __init__(self, call: Call, stops: frozenset[int], limit: int) -> None:
        self.call = call
        self._stops = stops
        self._limit = limit
        self._generated: dict[int, int] = {}
        # An output that may be a choice's last one waits for the choice's end: only together
        # they tell that the last token is no text.
        self._held: dict[int, JsonObject] = {}

    def read(self, response: object) -> list[JsonObject]:
        """Return a response as outputs of Dynamo's form."""
        answer: messages.GenerateResponse = response
        if answer.WhichOneof("response") == "complete":
            end = answer.complete
            last = self._held.pop(end.index, {"index": end.index, "token_ids": []})
            return [last | self._read_end(end)]
        chunk = answer.chunk
        outputs = [self._held.pop(chunk.index)] if chunk.index in self._held else []
        if not chunk.token_ids:
            return outputs
        generated = self._generated.get(chunk.index, 0) + len(chunk.token_ids)
        self._generated[chunk.index] = generated
        output: JsonObject = {"index": chunk.index, "token_ids": list(chunk.token_ids)}
        if chunk.HasField("output_logprobs"):
            output |= read_logprobs(chunk.output_logprobs)
        if chunk.token_ids[-1] in self._stops or generated >= self._limit:
            self._held[chunk.index] = output
            return outputs
        return [*outputs, output]

    def _read_end(self, end: messages.GenerateComplete) -> JsonObject:
        generated = sum(self._generated.values())
        output: JsonObject = {
            "finish_reason": end.finish_reason,
            "completion_usage": {
                "prompt_tokens": end.prompt_tokens,
                "completion_tokens": generated,
                "total_tokens": end.prompt_tokens + generated,
                "prompt_tokens_details": {"cached_tokens": end.cached_tokens},
            },
        }
        matched = end.WhichOneof("matched_stop")
        if matched is not None:
            output["stop_reason"] = getattr(end, matched)
        return output


def read_logprobs(found: messages.OutputLogProbs) -> JsonObject:
    """Return the tokens' probabilities in Dynamo's form."""
    tops = [
        [
            {"rank": rank, "token_id": token_id, "logprob": logprob}
            for rank, (token_id, logprob) in enumerate(by_probability(top), start=1)
        ]
        for top in found.top_logprobs
    ]
    return {"log_probs": list(found.token_logprobs), **({"top_logprobs": tops} if tops else {})}


def by_probability(top: messages.TopLogProbs) -> list[tuple[int, float]]:
    """Return token ids and probabilities, the likeliest first."""
    pairs = zip(top.token_ids, top.values, strict=True)
    return sorted(pairs, key=lambda pair: pair[1], reverse=True)


def connect(channel: grpc.aio.Channel) -> VllmServer:
    """Return the server at the other end of the channel."""
    return VllmServer(channel)
