"""Token ids of the engine in, OpenAI deltas out: pure, no I/O, one object per request.

    post = postprocessor(spec, tokenizer, tool_call_parser="hermes", reasoning_parser="qwen3")
    for out in post.feed(Chunk(index=0, token_ids=[...], finish_reason=None)):
        ...                                     # out.delta is an OpenAI delta

With `spec.stream` False the deltas of a choice come as one, at its finish.
"""

from ..parsers.base import ParserRequest
from .detokenizer import DetokenizerOptions, detokenizers
from .entry import postprocessor
from .messages import Capability, ChoiceDelta, Chunk, Delta, Post, Spec, Usage
from .request import Postprocessor

__all__ = [
    "Capability",
    "ChoiceDelta",
    "Chunk",
    "Delta",
    "DetokenizerOptions",
    "ParserRequest",
    "Post",
    "Postprocessor",
    "Spec",
    "Usage",
    "detokenizers",
    "postprocessor",
]
