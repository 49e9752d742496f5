"""An engine's gRPC server: requests and outputs of Dynamo's form in its messages.

The servers of vLLM and SGLang share the package smg-grpc-proto: most of their fields have the same
names. `engines/<engine>/remote.py` has the table of an engine.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping
from types import ModuleType
from typing import Annotated, Protocol, TypeAlias

import msgspec
from google.protobuf.message import Message
from smg_grpc_proto.generated import common_pb2

from ..base import limits
from ..base.errors import ProtocolError, RequestError, SetupError
from ..base.json_types import JsonObject, check_nesting
from .grpc_calls import Call

Put = Callable[[JsonObject, object], None]
"""Writes a value into the fields of a `GenerateRequest`, its first argument."""
Fields = Mapping[str, Mapping[str, Put | None]]
"""The fields of a request in Dynamo's form, by the object that has them.

None: post-processing does what the field asks for.
"""
_NEUTRAL: tuple[object, ...] = (None, False, "", [], {})
NOT_SAID = (
    "multi_modal_data mm_processor_kwargs prompt_embeds prefill_result bootstrap_info "
    "encoder_result"
).split()


def put_sampling(field: str) -> Put:
    """Write the value into the field of this name of the sampling parameters."""

    def put(message: JsonObject, value: object) -> None:
        message["sampling_params"][field] = value

    return put


def put_json(field: str) -> Put:
    """Write the value as JSON; a text is JSON already."""
    put = put_sampling(field)
    return lambda message, value: put(
        message, value if isinstance(value, str) else json.dumps(value)
    )


def put_stop_tokens(message: JsonObject, value: object) -> None:
    """Add to the stop tokens."""
    known = message["sampling_params"].get("stop_token_ids", [])
    message["sampling_params"]["stop_token_ids"] = [*known, *msgspec.convert(value, list[int])]


def put_constraint(constraints: Mapping[str, Put]) -> Put:
    """Write the grammar of an answer by the table of its kinds."""

    def put(message: JsonObject, found: object) -> None:
        value = msgspec.convert(found, JsonObject)
        refuse_fields(
            "sampling_options.guided_decoding.", value, set(value) - {*constraints, "backend"}
        )
        for name, write in constraints.items():
            if value.get(name) is not None:
                write(message, value[name])
                return

    return put


SAME_NAMES = (
    "n temperature top_p min_p frequency_penalty presence_penalty repetition_penalty"
).split()
COMMON: Fields = {
    "sampling_options": {
        **{name: put_sampling(name) for name in SAME_NAMES},
        "best_of": None,
        "include_stop_str_in_output": None,
    },
    "stop_conditions": {
        "ignore_eos": put_sampling("ignore_eos"),
        "stop_token_ids": put_stop_tokens,
        "stop_token_ids_hidden": put_stop_tokens,
        "stop": None,
    },
    "output_options": {"skip_special_tokens": None, "formatted_prompt": None},
}
"""The fields that vLLM's and SGLang's messages have alike."""


def fill(message: JsonObject, request: JsonObject, fields: Fields, defaults: JsonObject) -> None:
    """Write a request into the fields of a message.

    Raises `RequestError` for what the protocol cannot say.

    defaults: sampling options for a request that does not say otherwise.
    """
    refuse_fields("", request, NOT_SAID)
    for name, known in fields.items():
        values: JsonObject = request.get(name) or {}
        refuse_fields(f"{name}.", values, set(values) - set(known))
        if name == "sampling_options":
            given = {field: value for field, value in values.items() if value is not None}
            values = {**defaults, **given}
        for field, value in values.items():
            put = known.get(field)
            if put is not None and value is not None:
                put(message, value)


def build_fields(
    request: JsonObject,
    request_id: str,
    fields: Fields,
    defaults: JsonObject,
    sampling: JsonObject,
) -> JsonObject:
    """Return the fields of a `GenerateRequest`. Raises `RequestError` as `fill`.

    sampling: parameters that the request cannot ask for.
    """
    message: JsonObject = {
        "request_id": request_id,
        "tokenized": {"input_ids": request["token_ids"]},
        "stream": True,
        "sampling_params": {"skip_special_tokens": True, **sampling},
        "data_parallel_rank": (request.get("routing") or {}).get("dp_rank"),
    }
    fill(message, request, fields, defaults)
    return message


def read_defaults(text: str, fields: Fields) -> JsonObject:
    """Return the sampling options that the engine's model sets by itself. text: JSON, or empty.

    Raises `msgspec.DecodeError`.
    """
    found = msgspec.json.decode(check_nesting(text), type=dict[str, object]) if text else {}
    return {
        name: value
        for name, value in found.items()
        if name in fields["sampling_options"] and isinstance(value, int | float)
    }


def refuse_fields(prefix: str, values: JsonObject, unknown: Iterable[str]) -> None:
    """Raise `RequestError` for a field of `unknown` that asks for something."""
    for field in unknown:
        if values.get(field) not in _NEUTRAL:
            raise RequestError(f"{prefix}{field}", "is not passed to an engine over gRPC")


Count: TypeAlias = Annotated[int, msgspec.Meta(ge=1, lt=1 << 31)]


class ServedModel(msgspec.Struct, frozen=True):
    """The model of an engine; None for facts that its server does not give.

    context_length, block_size: in tokens. vocabulary_size: number of token ids.
    grammar_waits: whether a grammar starts after the reasoning, not with the first token.
    """

    path: str
    context_length: Count | None = None
    vocabulary_size: Count | None = None
    block_size: Count | None = None
    max_num_seqs: Count | None = None
    data_parallel_size: Annotated[int, msgspec.Meta(ge=1, le=limits.MAX_RANKS)] | None = None
    grammar_waits: bool | None = None


class EngineStub(Protocol):
    """The calls of an engine's service."""

    GetModelInfo: Callable[..., Awaitable[Message]]
    GetServerInfo: Callable[..., Awaitable[Message]]
    HealthCheck: Callable[..., Awaitable[Message]]
    Generate: Callable[[Message], Call]
    SubscribeKvEvents: Callable[[Message], Call]


class GrpcServer:
    """The gRPC server of one engine. Its methods raise `grpc.aio.AioRpcError`.

    stub: of its service. messages: the module of the service's messages. fields: of its requests.
    build: makes the message of a request in Dynamo's form, from its id and the sampling options
        that the model sets by itself; raises `RequestError`. describe: reads the answer about the
        server, as fields of the model.
    """

    def __init__(
        self,
        stub: EngineStub,
        messages: ModuleType,
        fields: Fields,
        build: Callable[[JsonObject, str, JsonObject], Message],
        describe: Callable[[Message], JsonObject],
    ) -> None:
        self._stub = stub
        self._messages = messages
        self._fields = fields
        self._defaults: JsonObject = {}
        self._build = build
        self._describe = describe

    async def describe(self, timeout_s: float) -> ServedModel:
        """Return the model that the server names. Raises `SetupError` if it cannot be one."""
        asked = self._messages.GetModelInfoRequest(), self._messages.GetServerInfoRequest()
        model = await self._stub.GetModelInfo(asked[0], timeout=timeout_s)
        server = await self._stub.GetServerInfo(asked[1], timeout=timeout_s)
        try:
            self._defaults = read_defaults(model.default_sampling_params_json, self._fields)
            found = {
                "path": model.model_path,
                "context_length": model.max_context_length or None,
                "vocabulary_size": model.vocab_size or None,
                **self._describe(server),
            }
            return msgspec.convert(found, ServedModel)
        except (msgspec.DecodeError, ValueError, OverflowError) as error:
            raise SetupError(
                f"the engine's server describes its model wrongly: {error}."
            ) from error

    async def is_healthy(self, timeout_s: float) -> bool:
        """Whether the engine can answer; SGLang generates a token to find out."""
        asked = self._messages.HealthCheckRequest()
        return bool((await self._stub.HealthCheck(asked, timeout=timeout_s)).healthy)

    def ask(self, request: JsonObject, request_id: str) -> StreamedRequest:
        """Start a request. Raises `RequestError` for what the protocol cannot say."""
        message = self._build(request, request_id, self._defaults)
        stops = message.sampling_params.stop_token_ids
        return StreamedRequest(self._stub.Generate(message), request, stops)

    def subscribe(self) -> Call:
        """Start a call that gives batches of KV cache events."""
        call: Call = self._stub.SubscribeKvEvents(common_pb2.SubscribeKvEventsRequest())
        return call


class StreamedRequest:
    """One request. Its tokens are in chunks; the end of a choice repeats the last ones.

    request: in Dynamo's form. stop_token_ids: those that the engine got.
    """

    def __init__(self, call: Call, request: JsonObject, stop_token_ids: Iterable[int]) -> None:
        self.call = call
        limit = (request.get("stop_conditions") or {}).get("max_tokens")
        self._limit = sys.maxsize if limit is None else limit
        self._choices = (request.get("sampling_options") or {}).get("n") or 1
        self._asked = frozenset(stop_token_ids)
        self._stops = self._asked.union(request.get("eos_token_ids") or ())
        options: JsonObject = request.get("output_options") or {}
        self._wants_logprobs = options.get("logprobs") is not None
        self._prompt: JsonObject = {}
        self._generated: dict[int, int] = {}
        # An output that may be a choice's last one waits for the choice's end: only together
        # they tell that the last token is no text.
        self._held: dict[int, JsonObject] = {}

    def read(self, response: Message) -> list[JsonObject]:
        """Return a response as outputs of Dynamo's form.

        Raises `ProtocolError` for what was not asked for, and lists of different lengths.
        """
        is_last = response.HasField("complete")
        found = response.complete if is_last else response.chunk
        if found.index >= self._choices:
            raise ProtocolError(
                f"the engine sent choice {found.index}; the request has {self._choices}"
            )
        try:
            self._read_prompt(found)
            if not is_last:
                return self._read_chunk(found)
            last = self._held.pop(found.index, {"index": found.index, "token_ids": []})
            return [last | self._read_end(found)]
        except ValueError as error:
            raise ProtocolError(f"the engine sent lists of different lengths: {error}") from error

    def _read_chunk(self, chunk: Message) -> list[JsonObject]:
        index, count = chunk.index, len(chunk.token_ids)
        outputs = [self._held.pop(index)] if index in self._held else []
        if not count:
            return outputs
        generated = self._generated.get(index, 0) + count
        if generated > self._limit:
            raise ProtocolError(
                f"the engine sent {generated} tokens; the request has max_tokens {self._limit}"
            )
        if count > limits.MAX_MESSAGE_TOKENS:
            raise ProtocolError(f"the engine sent {count} tokens in one message")
        self._generated[index] = generated
        token_ids = list(chunk.token_ids)
        output: JsonObject = {"index": index, "token_ids": token_ids}
        if self._wants_logprobs and chunk.HasField("output_logprobs"):
            output |= read_logprobs(chunk.output_logprobs)
        if token_ids[-1] in self._stops or generated >= self._limit:
            self._held[index] = output
            return outputs
        return [*outputs, output]

    def _read_prompt(self, found: Message) -> None:
        """Keep the prompt's probabilities, which Dynamo wants with the end of each choice."""
        if found.HasField("input_logprobs"):
            prompt = read_prompt_logprobs(found.input_logprobs)
            self._prompt = {"engine_data": {"prompt_logprobs": prompt}}

    def _read_end(self, end: Message) -> JsonObject:
        generated = sum(self._generated.values())
        output: JsonObject = {
            **self._prompt,
            "finish_reason": end.finish_reason,
            "completion_usage": {
                "prompt_tokens": end.prompt_tokens,
                "completion_tokens": generated,
                "total_tokens": end.prompt_tokens + generated,
                "prompt_tokens_details": {"cached_tokens": end.cached_tokens},
            },
        }
        # SGLang names the end of the text as well.
        if end.HasField("matched_token_id") and end.matched_token_id in self._asked:
            output["stop_reason"] = end.matched_token_id
        return output


def read_logprobs(found: Message) -> JsonObject:
    """Return the tokens' probabilities in Dynamo's form."""
    tops = [
        [
            {"rank": rank, "token_id": token_id, "logprob": logprob}
            for rank, (token_id, logprob) in enumerate(sort_likeliest(top), start=1)
        ]
        for top in found.top_logprobs
    ]
    return {"log_probs": list(found.token_logprobs), **({"top_logprobs": tops} if tops else {})}


def read_prompt_logprobs(found: Message) -> list[JsonObject | None]:
    """Return the probabilities of a prompt's tokens in Dynamo's form; the first one has none."""
    tops = [dict(sort_likeliest(top)) for top in found.top_logprobs]
    tops = tops or [{} for _ in found.token_ids]
    return [
        {str(each): {"logprob": logprob} for each, logprob in ({token_id: own.value} | top).items()}
        if own.HasField("value")
        else None
        for token_id, own, top in zip(found.token_ids, found.token_logprobs, tops, strict=True)
    ]


def sort_likeliest(top: Message) -> list[tuple[int, float]]:
    """Return token ids and probabilities, the likeliest first."""
    pairs = zip(top.token_ids, top.values, strict=True)
    return sorted(pairs, key=lambda pair: pair[1], reverse=True)
