"""Shared by the tests: transcripts, the tiny model's tokenizer, post-processing of tokens."""

from __future__ import annotations

import functools
import itertools
import json
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from backedge.parsers.base import ParserFactory, ParserNames, ParserRequest
from backedge.parsers.linear_parsers import LinearParsers
from backedge.parsers.parser_lookup import linear_parsers
from backedge.postprocess import Chunk, Postprocessor, PostprocessParams, detokenizers
from backedge.postprocess.delta_builder import aggregate_deltas
from backedge.postprocess.messages import ChoiceDelta
from backedge.tokenization.detokenizer import DetokenizerFactory, read_vocabulary
from tokenizers import Tokenizer

EXAMPLES = Path(__file__).parent.parent / "examples"
TINY_MODEL = EXAMPLES / "tiny_model"
Transcript = dict[str, Any]
# The parsers that the example model writes for.
NAMES = ParserNames("hermes", "qwen3")


def read_transcripts() -> list[Transcript]:
    return [
        json.loads(line)
        for path in sorted((EXAMPLES / "transcripts").glob("*.jsonl"))
        for line in path.read_text(encoding="utf-8").splitlines()
    ]


TRANSCRIPTS = {transcript["id"]: transcript for transcript in read_transcripts()}


@functools.cache
def tiny_tokenizer() -> Tokenizer:
    return Tokenizer.from_file(str(TINY_MODEL / "tokenizer.json"))


@functools.cache
def tiny_detokenizers() -> DetokenizerFactory:
    return detokenizers(tiny_tokenizer())


def encode(text: str) -> list[int]:
    token_ids: list[int] = tiny_tokenizer().encode(text, add_special_tokens=False).ids
    return token_ids


def params(**fields: Any) -> PostprocessParams:
    return PostprocessParams(
        **{
            "response_id": "chatcmpl-test",
            "created": 1,
            "model": "tiny",
            "prompt_length": 0,
            **fields,
        }
    )


def cut(items: Sequence[int], cuts: Iterable[int]) -> list[list[int]]:
    """Return `items` in pieces, cut before the given positions."""
    edges = sorted({0, len(items), *(position for position in cuts if position < len(items))})
    return [list(items[start:end]) for start, end in itertools.pairwise(edges)]


def chunks(
    token_ids: Sequence[int],
    cuts: Iterable[int] = (),
    finish_reason: str | None = "stop",
    **fields: Any,
) -> list[Chunk]:
    pieces = cut(token_ids, cuts) or [[]]
    return [
        Chunk(
            token_ids=piece,
            finish_reason=finish_reason if number == len(pieces) else None,
            **fields,
        )
        for number, piece in enumerate(pieces, 1)
    ]


def tiny_parsers(names: ParserNames = NAMES) -> LinearParsers:
    """Return linear parsers for the example model."""
    return linear_parsers(names, read_vocabulary(tiny_tokenizer()))


def feed(post: Postprocessor, parts: Iterable[Chunk]) -> list[ChoiceDelta]:
    return [delta for part in parts for delta in post.feed(part)]


def run(
    request: PostprocessParams,
    parts: Iterable[Chunk],
    parsers: ParserFactory | None = None,
    prompt_token_ids: Sequence[int] = (),
    **options: Any,
) -> ChoiceDelta:
    """Return the sum of all deltas of a request with one choice."""
    post = Postprocessor(
        request, tiny_detokenizers(), parsers, prompt_token_ids=prompt_token_ids, **options
    )
    return aggregate_deltas(feed(post, parts))


def message(whole: ChoiceDelta) -> dict[str, Any]:
    """Return a whole choice in the form in which the transcripts expect it."""
    return {
        "reasoning": whole.delta.reasoning_content,
        "content": whole.delta.content,
        "tool_calls": [
            {"name": call.function.name, "arguments": call.function.arguments}
            for call in whole.delta.tool_calls
        ],
        "finish_reason": whole.finish_reason,
    }


def as_whole(expected: dict[str, Any]) -> dict[str, Any]:
    """Return a transcript's answer without a stream: a call that max_tokens has cut is content."""
    if expected["finish_reason"] != "length" or not expected["tool_calls"]:
        return expected
    *calls, cut = expected["tool_calls"]
    spelt = f'{{"name": "{cut["name"]}", "arguments": {cut["arguments"]}'
    return {**expected, "content": (expected["content"] or "") + spelt, "tool_calls": calls}


def parser_request(transcript: Transcript) -> ParserRequest:
    tools = transcript.get("tools", [])
    return ParserRequest(
        tools=tools,
        tool_choice=transcript.get("tool_choice", "auto" if tools else "none"),
        chat_template_kwargs=transcript.get("chat_template_kwargs", {}),
    )


def write(line: str) -> None:
    """Write a line at once, also into a pipe."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def run_in_threads(use: Callable[[int], object], count: int = 4) -> None:
    """Call `use` with the numbers below `count`, each in a thread, at the same time."""
    threads = [threading.Thread(target=use, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
