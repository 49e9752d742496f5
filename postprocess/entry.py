"""The core by itself, as the worker runs it: for tests, tools and offline use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..parsers.registry import linear_parsers
from .detokenizer import detokenizers, vocabulary_of
from .messages import Spec
from .request import Postprocessor


def postprocessor(
    spec: Spec,
    tokenizer: Any,
    *,
    tool_call_parser: str | None = None,
    reasoning_parser: str | None = None,
    prompt_token_ids: Sequence[int] = (),
) -> Postprocessor:
    """Return what turns the tokens of one request into OpenAI deltas, with the linear parsers.

        post = postprocessor(spec, tokenizer, tool_call_parser="hermes", reasoning_parser="qwen3")
        for out in post.feed(Chunk(index=0, token_ids=[...], finish_reason=None)):
            ...                                 # out.delta is an OpenAI delta

    tokenizer: as for `detokenizers`.
    For many requests of one model, build `detokenizers(tokenizer)` and the parsers
    once and construct `Postprocessor` from them: a tokenizer takes milliseconds to read.
    Raises `UnknownParserError` for a name that no linear parser has.
    """
    return Postprocessor(
        spec,
        detokenizers(tokenizer),
        linear_parsers(tool_call_parser, reasoning_parser, vocabulary_of(tokenizer)),
        prompt_token_ids=prompt_token_ids,
    )
