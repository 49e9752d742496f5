"""Redacts text, and reads what a redacted stream must keep: the structure of its answer."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from backedge.base.json_types import JsonObject
from backedge.parsers.base import ParserFactory
from backedge.postprocess import ChoiceDelta, Chunk, Postprocessor, PostprocessParams
from backedge.postprocess.delta_builder import aggregate_deltas
from backedge.recording.redaction import Redactor, RequestRedactor
from backedge.tokenization.detokenizer import DetokenizerFactory

from tests.support import NAMES, params, tiny_detokenizers, tiny_tokenizer

Shape = dict[str, str] | str


class Structure(NamedTuple):
    """Kinds of text in order, calls with the types of their declared arguments, the finish."""

    kinds: list[str]
    calls: list[tuple[str | None, Shape]]
    finish_reason: str | None

    def rename(self, names: Mapping[str, str]) -> Structure:
        """Return the structure with other names."""
        calls: list[tuple[str | None, Shape]] = [
            (
                name and names[name],
                shape
                if isinstance(shape, str)
                else {names[key]: found for key, found in shape.items()},
            )
            for name, shape in self.calls
        ]
        return self._replace(calls=calls)


def find_structure(
    params: PostprocessParams,
    detokenizers: DetokenizerFactory,
    parsers: ParserFactory,
    prompt: Sequence[int],
    token_ids: Sequence[int],
    finish_reason: str = "stop",
) -> Structure:
    """Return the structure of an answer, fed one token at a time."""
    post = Postprocessor(params, detokenizers, parsers, prompt_token_ids=prompt)
    deltas = [
        delta
        for number, token_id in enumerate(token_ids, 1)
        for delta in post.feed(
            Chunk(
                token_ids=[token_id],
                finish_reason=finish_reason if number == len(token_ids) else None,
            )
        )
    ]
    return read_structure(params, deltas)


def read_structure(params: PostprocessParams, deltas: Sequence[ChoiceDelta]) -> Structure:
    """Return the structure of one choice."""
    whole = aggregate_deltas(list(deltas))
    declared = {
        tool["function"]["name"]: {
            *(tool["function"].get("parameters") or {}).get("properties", ())
        }
        for tool in params.parser.tools
    }
    calls = [
        (
            call.function.name if call.function.name in declared else None,
            read_shape(call.function.arguments, declared.get(call.function.name or "", set())),
        )
        for call in whole.delta.tool_calls
    ]
    return Structure(find_kinds(deltas), calls, whole.finish_reason)


def find_kinds(deltas: Sequence[ChoiceDelta]) -> list[str]:
    kinds: list[str] = []
    for delta in deltas:
        part: JsonObject = {
            "call": delta.delta.tool_calls,
            "reasoning": delta.delta.reasoning_content,
            "content": delta.delta.content,
        }
        kinds += [kind for kind, text in part.items() if text and kinds[-1:] != [kind]]
    return kinds


def read_shape(arguments: str, declared: set[str]) -> Shape:
    """Return the types of the declared arguments; of others the names are replaced."""
    try:
        found = json.loads(arguments)
    except ValueError:
        return "no JSON"
    if not isinstance(found, dict):
        return type(found).__name__
    return {key: type(value).__name__ for key, value in found.items() if key in declared}


@functools.cache
def redactor() -> Redactor:
    return Redactor(tiny_detokenizers())


def for_request(**fields: Any) -> RequestRedactor:
    return RequestRedactor(redactor(), params(**fields), NAMES)


def redact(redacting: RequestRedactor, token_ids: list[int]) -> list[int]:
    """Return the redacted tokens; each was a chunk of its own."""
    return [new for ids in redacting.redact([[one] for one in token_ids]) for new in ids]


def decode(token_ids: list[int]) -> str:
    text: str = tiny_tokenizer().decode(token_ids, skip_special_tokens=False)
    return text


def shorten(text: str) -> str:
    return re.sub("x+", "x", re.sub("1+", "1", text))
