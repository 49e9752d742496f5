"""Builds Dynamo's chunks from a request's deltas and the engine's other fields."""

from __future__ import annotations

import abc

from typing_extensions import override

from ..base.json_types import JsonObject
from ..postprocess.chunk_scheduler import ScheduledChunk
from ..postprocess.messages import KEY, PostprocessedChunk, encode
from ..postprocess.stage_timing import Clock, StageTime

# Fields of the engine's output that the chunk or its deltas replace.
IN_DELTAS = frozenset(
    ("index", "token_ids", "log_probs", "top_logprobs", "finish_reason", "stop_reason")
)
CUT_REASONS = ("length", "content_filter")


class ChunkWriter(abc.ABC):
    """Builds the chunks of one request, with those fields of the engine that no delta replaces.

    If such a field repeats before the next chunk of its choice, the last value counts.
    """

    def __init__(self) -> None:
        self._fields_by_choice: dict[int, JsonObject] = {}

    def add(self, index: int, output: JsonObject) -> None:
        """Take the fields of an output, other than tokens, for choice `index`."""
        if output.keys() <= IN_DELTAS:
            return  # true of most outputs
        fields = self._fields_by_choice.setdefault(index, {})
        fields |= {name: output[name] for name in output.keys() - IN_DELTAS}

    def take(self, index: int) -> JsonObject:
        """Return the fields kept for a choice, and drop them."""
        return self._fields_by_choice.pop(index, {}) if self._fields_by_choice else {}

    @abc.abstractmethod
    def write(self, scheduled: ScheduledChunk) -> JsonObject:
        """Return `scheduled` as one of Dynamo's chunks."""


class PostprocessedWriter(ChunkWriter):
    """Adds the deltas next to the tokens, for a frontend that reads `PostprocessedChunk`.

    clock: set if the stages of this request are measured.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        super().__init__()
        self._clock = clock

    @override
    def write(self, scheduled: ScheduledChunk) -> JsonObject:
        chunk = self.take(scheduled.index)
        chunk["index"] = scheduled.index
        chunk["token_ids"] = scheduled.token_ids
        if scheduled.finished:
            last = scheduled.deltas[-1]
            # The client may see "tool_calls", but Dynamo knows only the engines' reasons.
            is_cut = last.finish_reason in CUT_REASONS
            chunk["finish_reason"] = last.finish_reason if is_cut else "stop"
            if last.stop_reason is not None:
                chunk["stop_reason"] = last.stop_reason
        extra_args = chunk["extra_args"] = chunk.get("extra_args") or {}
        post = PostprocessedChunk(deltas=scheduled.deltas, usage=scheduled.usage)
        extra_args[KEY] = self._encode(post, scheduled)
        return chunk

    def _encode(self, post: PostprocessedChunk, scheduled: ScheduledChunk) -> str:
        clock = self._clock
        if clock is None:
            return encode(post)
        began = clock()
        text = encode(post)
        scheduled.times.append(StageTime("encode", clock() - began, len(scheduled.token_ids)))
        return text
