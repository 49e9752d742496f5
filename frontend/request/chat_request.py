"""A chat request with types, decoded once.

Only the fields that this package reads are declared; others are ignored. Schemas, message contents
and other nested JSON stay `object` or `JsonObject`: decoding does not walk through them, so its
cost does not depend on the length of a prompt. The parts are hidden from the garbage collector
(`gc=False`), which would run repeatedly while a long conversation is decoded; they only refer to
the request's JSON, so there are no cycles.

Dynamo 1.6's HTTP layer rejects unknown fields with HTTP 400 and drops some known ones
(`stop_token_ids`). It passes OpenAI's `metadata` on, so these `OPTIONS` are sent under its key
"backedge": as an object, or, for typed clients, as a JSON string of one.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from ...base import limits
from ...base.errors import RequestError
from ...base.json_types import JsonObject, decode_json
from ...guided.guided_request import GuidedRequest, decode_request
from ...templates.chat_template import join_reasoning
from ..turns.flags import TurnMode

# The name of a field of the response, and of one under its `nvext`.
PROMPT_LOGPROBS = "prompt_logprobs"
# Fields under `nvext` that the worker reports with a choice's end.
MALFORMED_CALLS, DISCARDED_TOKENS = "malformed_calls", "discarded_tokens"


class CalledFunction(msgspec.Struct, gc=False):
    """The function of a call. arguments: JSON text or a decoded value."""

    name: str
    arguments: str | JsonObject | None = None


class ToolCall(msgspec.Struct, gc=False):
    """A call that the model made in an earlier turn."""

    function: CalledFunction
    id: str | None = None
    type: Literal["function"] = "function"


class Message(msgspec.Struct, gc=False):
    """One message of the conversation. content: text or parts, in any of OpenAI's forms."""

    role: str
    content: object = None
    name: str | None = None
    tool_call_id: str | None = None
    reasoning_content: str | list[str] | None = None
    tool_calls: list[ToolCall] | None = None


class StreamOptions(msgspec.Struct, gc=False):
    """OpenAI's `stream_options` and vLLM's addition to them."""

    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None


class NvExt(msgspec.Struct, gc=False):
    """Dynamo's extension of the request."""

    extra_fields: list[str] | None = None
    max_thinking_tokens: int | None = None


class ChatRequest(GuidedRequest, kw_only=True):
    """An OpenAI chat completion request with the extensions of vLLM, SGLang and Dynamo.

    None stands for an absent field and for null.
    """

    model: str
    messages: list[Message]

    n: int | None = None
    seed: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    repetition_penalty: float | None = None
    logit_bias: object = None
    chat_template: object = None

    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    min_tokens: int | None = None
    thinking_token_budget: int | None = None
    ignore_eos: bool | None = None
    stop: str | list[str | int] | None = None
    stop_token_ids: list[int] | None = None
    include_stop_str_in_output: bool | None = None

    stream: bool | None = None
    stream_options: StreamOptions | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    prompt_logprobs: int | None = None
    skip_special_tokens: bool | None = None
    spaces_between_special_tokens: bool | None = None
    include_reasoning: bool | None = None
    return_token_ids: bool | None = None
    return_tokens_as_token_ids: bool | None = None

    thinking: object = None
    reasoning_effort: str | None = None
    chat_template_kwargs: JsonObject | None = None
    chat_template_args: JsonObject | None = None
    add_generation_prompt: bool | None = None
    add_special_tokens: bool | None = None
    continue_final_message: bool | None = None

    keep_turns: TurnMode | None = None
    turns_conversation: str | None = None
    malformed_calls: Literal["open"] | None = None
    metadata: object = None
    nvext: NvExt | None = None
    routing: object = None

    @property
    def extra_fields(self) -> list[str]:
        """The fields under `nvext` that the client wants in the response."""
        return (self.nvext.extra_fields if self.nvext else None) or []

    @property
    def prompt_logprobs_count(self) -> int | None:
        """The alternatives of each of the prompt's tokens; None if the response has none.

        A stream has them under `nvext` alone.
        """
        shown = not self.stream or PROMPT_LOGPROBS in self.extra_fields
        return self.prompt_logprobs if shown else None

    @property
    def shows_prompt(self) -> bool:
        """Whether the response has the prompt's tokens."""
        return bool(self.return_token_ids) or self.prompt_logprobs_count is not None

    @property
    def max_output_tokens(self) -> int | None:
        """The limit that the client set under either of its names; None for no limit."""
        if self.max_completion_tokens is None:
            return self.max_tokens
        return self.max_completion_tokens

    @property
    def stop_strings(self) -> list[str]:
        """The stop strings; valid after `check_request`."""
        stops = [self.stop] if isinstance(self.stop, str) else self.stop or []
        return [stop for stop in stops if isinstance(stop, str)]

    @property
    def top_logprobs_count(self) -> int | None:
        """Number of alternatives per output token; None for no logprobs at all."""
        return (self.top_logprobs or 0) if self.logprobs is True else None

    @property
    def characters(self) -> int:
        """The length of the messages' text, which is most of the prompt."""
        return sum(_count_characters(message.content) for message in self.messages)

    def set_field(self, name: str, value: object, path: str) -> None:
        """Set a field, here and in `raw`. path: of the value in the client's request."""
        setattr(self, name, value)
        self.raw[name] = value
        self._written[name] = path

    def written_name(self, name: str) -> str:
        """Return the JSON path under which the client wrote a field."""
        return self._written.get(name, name)

    @property
    def _written(self) -> dict[str, str]:
        written: dict[str, str] = self.__dict__.setdefault("written", {})
        return written


def _count_characters(content: object) -> int:
    match content:
        case str(text) | {"text": str(text)}:
            return len(text)
        case [*parts]:
            return sum(map(_count_characters, parts))
    return 0


_VARIABLES = ("chat_template_kwargs", "values", limits.MAX_TEMPLATE_VALUES)
# Fields whose entries are decoded one by one, which holds the interpreter's lock.
LONGEST = {
    "messages": ("messages", "messages", limits.MAX_MESSAGES),
    "tools": ("tools", "tools", limits.MAX_TOOLS),
    "stop": ("stop", "strings", limits.MAX_STOPS),
    "stop_token_ids": ("stop_token_ids", "tokens", limits.MAX_STOP_TOKEN_IDS),
    "chat_template_kwargs": _VARIABLES,
    "chat_template_args": _VARIABLES,
}


def decode_chat_request(raw: JsonObject) -> ChatRequest:
    """Return the typed request. raw: in OpenAI's form; kept as `ChatRequest.raw`, not copied.

    Raises `RequestError` with the JSON path of a missing field or of a value of a wrong type, and
    for a field that has too many entries: these are not looked at.
    """
    for name, (field, unit, limit) in LONGEST.items():
        if name not in raw:
            continue
        entries = raw[name]
        if isinstance(entries, list | dict) and len(entries) > limit:
            raise RequestError.too_many(field, len(entries), unit, limit)
    return decode_request(raw, ChatRequest)


def write_reasoning_as_text(request: ChatRequest) -> None:
    """Join reasoning in segments, also in `raw`, because engines' renderers pass on lists."""
    for message, given in zip(request.messages, request.raw["messages"], strict=True):
        if isinstance(message.reasoning_content, list):
            text = join_reasoning(message.reasoning_content)
            message.reasoning_content = given["reasoning_content"] = text


METADATA_KEY = "backedge"


class Metadata(msgspec.Struct):
    """OpenAI's `metadata`. options: an object, or JSON text of one."""

    options: object = msgspec.field(default=None, name=METADATA_KEY)


class Option(msgspec.Struct, frozen=True):
    """One option. field: the request's. type: of its value. allowed: description of the type."""

    field: str
    type: object
    allowed: str


def _switch(field: str) -> Option:
    return Option(field, bool, "true or false")


OPTIONS = {
    "stop_token_ids": Option("stop_token_ids", list[int], "a list of token ids"),
    "return_token_ids": _switch("return_token_ids"),
    "spaces_between_special_tokens": _switch("spaces_between_special_tokens"),
    "include_reasoning": _switch("include_reasoning"),
    # SGLang's name for vLLM's field.
    "no_stop_trim": _switch("include_stop_str_in_output"),
    "keep_turns": Option("keep_turns", TurnMode, "off, reasoning or exact"),
    "conversation": Option(
        "turns_conversation",
        Annotated[str, msgspec.Meta(min_length=1, max_length=limits.MAX_CONVERSATION)],
        f"a text of at most {limits.MAX_CONVERSATION} characters",
    ),
    "malformed_calls": Option("malformed_calls", Literal["open"], "open"),
}


def apply_metadata_options(request: ChatRequest) -> None:
    """Set the fields that `metadata.backedge` specifies, in `request` and `request.raw`.

    Also moves `stop` to `stop_token_ids` if it is a list of token ids, which Dynamo's HTTP
    layer accepts.
    Raises `RequestError` for an unknown option or a value of the wrong type.
    """
    _move_stop_token_ids(request)
    if not isinstance(request.metadata, dict):
        return
    given = msgspec.convert(request.metadata, Metadata).options
    if given is None:
        return
    for name, value in _decode_options(given).items():
        path = f"metadata.{METADATA_KEY}.{name}"
        if name not in OPTIONS:
            raise RequestError.unsupported(path, _explain_unknown(name))
        option = OPTIONS[name]
        try:
            request.set_field(option.field, msgspec.convert(value, option.type), path)
        except (msgspec.ValidationError, UnicodeEncodeError) as error:  # half a surrogate pair
            raise RequestError.wrong(path, value, option.allowed) from error


def _explain_unknown(name: str) -> str:
    if name == "stop_regex":
        return "a stream is searched for strings only; use `stop`"
    return f"the options are {', '.join(OPTIONS)}"


def _move_stop_token_ids(request: ChatRequest) -> None:
    if isinstance(request.stop, list) and all(isinstance(item, int) for item in request.stop):
        request.set_field("stop_token_ids", request.stop, "stop")
        request.stop = None
        del request.raw["stop"]


def _decode_options(given: object) -> JsonObject:
    if isinstance(given, str) and len(given) > limits.MAX_OPTIONS:
        raise RequestError.too_many(
            f"metadata.{METADATA_KEY}", len(given), "characters", limits.MAX_OPTIONS
        )
    try:
        value = decode_json(given, limits.MAX_JSON_NESTING) if isinstance(given, str) else given
        return msgspec.convert(value, JsonObject)
    except (ValueError, msgspec.ValidationError) as error:
        allowed = "an object or a JSON string of one"
        raise RequestError.wrong(f"metadata.{METADATA_KEY}", given, allowed) from error
