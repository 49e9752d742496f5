"""The form of a recording: one request in one line of JSON.

A recording holds all that it takes to post-process the request again: its parameters, its prompt,
and the engine's chunks. It also holds the deltas that were sent, to compare with.
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
    """The model, and the parsers that its worker has chosen.

    path: folder or name of the model, where its tokenizer is found again.
    engine: "vllm", "sglang", "trtllm" or "replay". kind: of the parsers; "auto" where the source
        does not know.
    """

    path: str
    engine: str = ""
    engine_version: str = ""
    backedge_version: str = ""
    parsers: ParserNames = ParserNames()
    kind: Kind = "auto"


class RecordedPrompt(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The prompt as the engine has got it.

    token_ids: None if prompts are not recorded. sha256: of the token ids, in hexadecimal.
    tail: the last of the token ids that parsers look at; recorded without `token_ids` as well,
        and redacted as the answer is.
    """

    sha256: str
    token_ids: list[int] | None = None
    tail: list[int] = []


class RecordedChunk(msgspec.Struct, frozen=True, array_like=True):
    """What the engine gave in one step. at_ms: since the request came."""

    at_ms: float
    chunk: Chunk


class RecordedDeltas(msgspec.Struct, frozen=True, array_like=True):
    """Deltas that left together. at_ms: since the request came. sizes: of each delta's text.

    deltas: without their text in a redacted recording; its characters are counted in `sizes`.
    """

    at_ms: float
    deltas: list[ChoiceDelta]
    sizes: list[int] = []


class Recording(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One request, from its parameters to its end.

    began: when it came, in seconds since 1970. resumed: number of tokens that another worker had
        generated before it died; they are the first chunk.
    redacted: ordinary words are replaced in token ids, and left out of deltas and parameters.
    dropped: tokens behind the bound of a recording, which it does not hold.
    error: of a failed request.
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
