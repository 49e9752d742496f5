"""The protocol inside Dynamo's own messages, and the types that go in and out of the core.

`PostprocessParams` rides on the request and `PostprocessedChunk` on each chunk, both under
`extra_args["backedge"]`; `WorkerCard` rides on the model card, under `runtime_data["backedge"]`.
Each is one JSON string: Dynamo carries a string through untouched, at the cost of one value.

New fields go last, with a default. A change that an older peer would misread raises VERSION,
and a message of a newer version is left alone.
"""

from __future__ import annotations

from typing import Annotated, TypeVar

import msgspec

from ..base.errors import ProtocolError
from ..parsers.base import ParserRequest
from ..tokenization.detokenizer import DetokenizerOptions

VERSION = 1
KEY = "backedge"
U32 = Annotated[int, msgspec.Meta(ge=0, le=(1 << 32) - 1)]
"""An index or a token id, as Dynamo carries it."""


class PostprocessParams(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """All that post-processing needs to know of a chat request.

    prompt_length: tokens of the prompt as rendered; a worker that died has generated the tokens
        after them (migration).
    stop: stop strings; the earliest one to be complete ends the choice.
    logprobs: number of alternatives per token, None for no logprobs.
    """

    version: int = VERSION
    response_id: str
    created: int
    model: str
    prompt_length: int
    n: int = 1
    stream: bool = True
    include_usage: bool = False
    continuous_usage_stats: bool = False
    stop: list[str] = []
    include_stop_str_in_output: bool = False
    min_tokens: int = 0
    detokenizer: DetokenizerOptions = DetokenizerOptions()
    logprobs: int | None = None
    return_token_ids: bool = False
    return_tokens_as_token_ids: bool = False
    parser: ParserRequest = ParserRequest()

    @property
    def annotates_tokens(self) -> bool:
        """Whether deltas carry the ids or logprobs of their tokens."""
        return self.logprobs is not None or self.return_token_ids


class WorkerCard(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What a post-processing worker advertises on the model card.

    engine: "vllm", "sglang" or "replay". tool_call_parser, reasoning_parser: names as its flags
        give them. backedge_version: of the worker, for whoever looks at a fleet.
    """

    version: int = VERSION
    engine: str
    engine_version: str
    tool_call_parser: str | None = None
    reasoning_parser: str | None = None
    backedge_version: str | None = None


class TopLogprob(msgspec.Struct, frozen=True, gc=False):
    """One alternative: its text, its natural-log probability, its UTF-8 bytes."""

    token: str
    logprob: float
    bytes: list[int] | None


class TokenLogprob(msgspec.Struct, frozen=True, gc=False):
    """One generated token, in OpenAI's form."""

    token: str
    logprob: float
    bytes: list[int] | None
    top_logprobs: list[TopLogprob]


class FunctionDelta(msgspec.Struct, omit_defaults=True, gc=False):
    """The new part of a call: its name once, then its arguments.

    arguments: always there, also when empty; clients add it up.
    """

    arguments: str
    name: str | None = None


class ToolCallDelta(msgspec.Struct, omit_defaults=True, gc=False):
    """The new part of the call number `index`; id and type come once, with the name."""

    index: int
    function: FunctionDelta
    id: str | None = None
    type: str | None = None


class Delta(msgspec.Struct, omit_defaults=True, gc=False):
    """An OpenAI delta; in a stream it holds one kind of text only."""

    role: str | None = None
    content: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[ToolCallDelta] = []


class ChoiceDelta(msgspec.Struct, omit_defaults=True, gc=False):
    """One delta of one choice, with all that belongs to the same tokens.

    token_ids: the tokens of this delta, if the client asked for them.
    """

    index: int
    delta: Delta = msgspec.field(default_factory=Delta)
    finish_reason: str | None = None
    stop_reason: str | int | None = None
    logprobs: list[TokenLogprob] | None = None
    token_ids: list[int] | None = None


class Usage(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Tokens of a request so far, all choices together.

    cached_tokens: of the prompt, from the prefix cache; None if the engine did not say.
    """

    prompt_tokens: int
    completion_tokens: int
    reasoning_tokens: int = 0
    cached_tokens: int | None = None


class PostprocessedChunk(msgspec.Struct, omit_defaults=True, gc=False):
    """The deltas of a chunk's tokens, in order; none while text is held back.

    usage: as of this chunk, if the client is to see it.
    """

    version: int = VERSION
    deltas: list[ChoiceDelta] = []
    usage: Usage | None = None


class EngineLogprob(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One alternative of a token, as Dynamo's `LLMEngineOutput` carries it.

    rank: 1 for the most likely token. logprob: natural logarithm; may be minus infinity.
    """

    token_id: int | None = None
    rank: int | None = None
    logprob: float = 0.0


class Chunk(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, gc=False):
    """One engine output for one choice, as Dynamo carries it.

    token_ids: new tokens only. finish_reason: the engine's, None while it goes on.
    logprobs, top_logprobs: one entry per token, as `LLMEngineOutput` defines them.
    """

    index: U32 = 0
    token_ids: list[U32] = []
    finish_reason: str | None = None
    stop_reason: str | int | None = None
    logprobs: list[float] | None = None
    top_logprobs: list[list[EngineLogprob]] | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None


class _Version(msgspec.Struct):
    version: int = VERSION


M = TypeVar("M", PostprocessParams, PostprocessedChunk, WorkerCard)

_encode = msgspec.json.Encoder().encode
_decode_version = msgspec.json.Decoder(_Version).decode
_decoders = {
    kind: msgspec.json.Decoder(kind) for kind in (PostprocessParams, PostprocessedChunk, WorkerCard)
}


def encode(message: PostprocessParams | PostprocessedChunk | WorkerCard) -> str:
    """Return `message` as it travels."""
    return _encode(message).decode()


def decode(kind: type[M], text: str) -> M | None:
    """Return the message, or None if it is of a newer version than ours.

    Raises `ProtocolError` if it is not a message of this kind at all.
    """
    try:
        return _decoders[kind].decode(text)  # type: ignore[return-value]  # a table has one type
    except RecursionError as error:
        raise ProtocolError(f"a {kind.__name__} is nested too deeply") from error
    except msgspec.DecodeError as error:
        # A newer version may have changed what it likes, so its shape is no fault.
        try:
            newer = _decode_version(text).version > VERSION
        except msgspec.DecodeError:
            newer = False
        if newer:
            return None
        raise ProtocolError(f"not a {kind.__name__} of version {VERSION}: {error}") from error


def read(kind: type[M], text: object) -> M | None:
    """Return the message, or None where there is none that we can read (none, or a newer one)."""
    if not isinstance(text, str):
        return None
    message = decode(kind, text)
    return message if message is not None and message.version <= VERSION else None
