"""Builds chunks with `text` for Dynamo's Rust frontend."""

from __future__ import annotations

import codecs
from collections import deque

from typing_extensions import override

from ...base.json_types import JsonObject
from ...postprocess.chunk_scheduler import ScheduledChunk
from ...postprocess.stage_timing import Clock
from ...tokenization.detokenizer import DetokenizerFactory
from ...tokenization.detokenizer.base import REPLACEMENT
from ..chunk_writer import ChunkWriter, EnginePassthrough

TokenLogprobs = tuple[float, list[JsonObject]]
"""A token's natural-log probability, and its alternatives as the engine gave them."""


class StockWriter(ChunkWriter):
    """Adds text to tokens, and the logprobs as the engine gave them."""

    def __init__(self, detokenizers: DetokenizerFactory, clock: Clock | None = None) -> None:
        self._detokenizers = detokenizers
        self._passthrough = EnginePassthrough()
        # By choice: logprobs of tokens not yet sent; None for a choice without logprobs.
        self._logprobs: dict[int, deque[TokenLogprobs | None] | None] = {}
        self._ends: dict[int, JsonObject] = {}
        self._pending: dict[int, bytes] = {}  # by choice: bytes of an incomplete character

    @override
    def add(self, index: int, output: JsonObject) -> None:
        self._passthrough.add(index, output)
        if output.get("finish_reason") is not None:
            self._ends[index] = {
                name: output[name] for name in ("finish_reason", "stop_reason") if name in output
            }
        if token_ids := output.get("token_ids"):
            self._add_logprobs(index, output, len(token_ids))

    @override
    def write(self, scheduled: ScheduledChunk) -> JsonObject:
        index, delta = scheduled.index, scheduled.deltas[-1].delta
        chunk: JsonObject = {}
        # The engine's final fields go into the final chunk.
        if scheduled.finished or index not in self._ends:
            chunk = self._passthrough.take(index)
        chunk["index"] = index
        chunk["token_ids"] = scheduled.token_ids
        chunk["text"] = delta.content or ""
        self._take_logprobs(chunk)
        if scheduled.finished:
            chunk.update(self._end(scheduled))
        return chunk

    def _end(self, scheduled: ScheduledChunk) -> JsonObject:
        last = scheduled.deltas[-1]
        if isinstance(last.stop_reason, str):
            return {"finish_reason": "stop", "stop_reason": last.stop_reason}
        return self._ends.get(scheduled.index) or {"finish_reason": "stop"}

    def _add_logprobs(self, index: int, output: JsonObject, tokens: int) -> None:
        logprobs = output.get("log_probs") or []
        if index not in self._logprobs:
            self._logprobs[index] = deque() if logprobs else None
        waiting = self._logprobs[index]
        if waiting is None:
            return
        tops = output.get("top_logprobs") or [[]] * tokens
        complete = len(logprobs) == len(tops) == tokens
        waiting.extend(zip(logprobs, tops, strict=True) if complete else [None] * tokens)

    def _take_logprobs(self, chunk: JsonObject) -> None:
        """Add the logprobs of the chunk's tokens, and the tokens' texts, which they need."""
        waiting, token_ids = self._logprobs.get(chunk["index"]), chunk["token_ids"]
        if not waiting or not token_ids:
            return
        taken = [waiting.popleft() for _ in token_ids]
        known = [item for item in taken if item is not None]
        if len(known) == len(token_ids):
            chunk["log_probs"] = [logprob for logprob, _ in known]
            chunk["top_logprobs"] = [top for _, top in known]
            chunk["tokens"] = [
                self._name(chunk["index"], token_id, top)
                for token_id, (_, top) in zip(token_ids, known, strict=True)
            ]

    def _name(self, index: int, token_id: int, top: list[JsonObject]) -> str:
        """Return the text of a token; name its alternatives as vLLM's server does.

        A token within a character has the text that it completes; the engine calls it U+FFFD.
        """
        before = self._pending.get(index, b"")
        for item in top:
            if REPLACEMENT in (item.get("token") or REPLACEMENT):
                item["token"], _ = self._decode(before, item["token_id"])
        names = (item["token"] for item in top if item["token_id"] == token_id)
        text, self._pending[index] = self._decode(before, token_id)
        return next(names, text)

    def _decode(self, before: bytes, token_id: int) -> tuple[str, bytes]:
        content = before + self._detokenizers.token_bytes(token_id)
        text, used = codecs.utf_8_decode(content, "replace")
        return text, content[used:]
