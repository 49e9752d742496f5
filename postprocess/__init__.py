"""Turns the engine's token ids into OpenAI deltas: pure, no I/O, one object per request.

    post = postprocessor(params, tokenizer, tool_call_parser="hermes", reasoning_parser="qwen3")
    for out in post.feed(Chunk(index=0, token_ids=[...], finish_reason=None)):
        ...                                     # out.delta is an OpenAI delta

If `params.stream` is False, each choice gives one delta, at its finish.
"""

from ..parsers.base import ParserRequest
from ..tokenization.detokenizer import DetokenizerOptions, detokenizers
from .messages import (
    ChoiceDelta,
    Chunk,
    Delta,
    PostprocessedChunk,
    PostprocessParams,
    Usage,
    WorkerCard,
)
from .postprocessor import Postprocessor, postprocessor

VllmPostProcessor = Postprocessor

__all__ = [
    "ChoiceDelta",
    "Chunk",
    "Delta",
    "DetokenizerOptions",
    "ParserRequest",
    "PostprocessParams",
    "PostprocessedChunk",
    "Postprocessor",
    "Usage",
    "VllmPostProcessor",
    "WorkerCard",
    "detokenizers",
    "postprocessor",
]
