"""The entry point to post-processing outside the worker: for tests, tools and offline use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..parsers.base import ParserNames
from ..parsers.parser_lookup import linear_parsers
from ..tokenization.detokenizer import detokenizers, read_vocabulary
from .messages import PostprocessParams
from .postprocessor import Postprocessor


def postprocessor(
    params: PostprocessParams,
    tokenizer: Any,
    *,
    tool_call_parser: str | None = None,
    reasoning_parser: str | None = None,
    prompt_token_ids: Sequence[int] = (),
) -> Postprocessor:
    """Build a `Postprocessor` for one request, with the linear parsers.

        post = postprocessor(params, tokenizer, tool_call_parser="hermes", reasoning_parser="qwen3")
        for out in post.feed(Chunk(index=0, token_ids=[...], finish_reason=None)):
            ...                                 # out.delta is an OpenAI delta

    tokenizer: as for `detokenizers`. Reading one takes milliseconds, so for many requests of one
    model build `detokenizers(tokenizer)` and the parsers once and construct `Postprocessor`.
    Raises `UnknownParserError` if no linear parser has that name.
    """
    return Postprocessor(
        params,
        detokenizers(tokenizer),
        linear_parsers(ParserNames(tool_call_parser, reasoning_parser), read_vocabulary(tokenizer)),
        prompt_token_ids=prompt_token_ids,
    )
