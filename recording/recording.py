"""The format of a recording: one request in one line of JSON.

A recording holds all input of post-processing (the request's parameters, its prompt and the
engine's chunks), and, for comparison, the deltas that were sent.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from ..parsers.base import ParserNames
from ..parsers.parser_lookup import Kind
from ..postprocess.messages import ChoiceDelta, Chunk, PostprocessParams

VERSION = 1
Source = Literal["worker", "frontend"]
Outcome = Literal["finished", "cancelled", "failed"]


class RecordedModel(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The model, and the parsers that its worker chose.

    path: folder or name of the model, from which its tokenizer can be loaded.
    engine: "vllm", "sglang", "trtllm" or "replay". kind: of the parsers; "auto" if the source
        does not know.
    """

    path: str
    engine: str = ""
    engine_version: str = ""
    backedge_version: str = ""
    parsers: ParserNames = ParserNames()
    kind: Kind = "auto"


class RecordedPrompt(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The prompt as sent to the engine.

    token_ids: None if prompts are not recorded. sha256: of the token ids, in hexadecimal.
    tail: the last token ids, which parsers check; recorded even without `token_ids`, and
        redacted as the answer is.
    """

    sha256: str
    token_ids: list[int] | None = None
    tail: list[int] = []


class RecordedChunk(msgspec.Struct, frozen=True, array_like=True):
    """The engine's output of one step. at_ms: since the request arrived."""

    at_ms: float
    chunk: Chunk


class RecordedDeltas(msgspec.Struct, frozen=True, array_like=True):
    """Deltas that were sent together. at_ms: since the request arrived.

    deltas: in a redacted recording each character of their texts is a dot.
    """

    at_ms: float
    deltas: list[ChoiceDelta]


class DiscardedCall(msgspec.Struct, frozen=True, array_like=True):
    """The output of an attempt at a call that was generated again.

    reason: one of `CallFault`. after: number of the recording's chunks in front of it.
    """

    reason: str
    after: int
    chunks: list[RecordedChunk]


class Recording(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One request, from its parameters to its end.

    began: when it arrived, in seconds since 1970. resumed: number of tokens that another worker
        had generated before it died; they are the first chunk.
    redacted: ordinary words are replaced in token ids and deltas and removed from parameters.
    dropped: number of tokens beyond the limit, which are missing.
    error: of a failed request. discarded: malformed calls that are in neither chunks nor deltas.
    """

    version: int = VERSION
    source: Source
    began: float
    model: RecordedModel
    params: PostprocessParams
    prompt: RecordedPrompt
    chunks: list[RecordedChunk] = []
    sent: list[RecordedDeltas] = []
    outcome: Outcome = "finished"
    error: str | None = None
    resumed: int = 0
    redacted: bool = False
    dropped: int = 0
    discarded: list[DiscardedCall] = []

    @property
    def all_chunks(self) -> list[RecordedChunk]:
        """The chunks, and after them those of the calls that were generated again."""
        return [*self.chunks, *(chunk for call in self.discarded for chunk in call.chunks)]
