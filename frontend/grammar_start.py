"""Where the grammar of an answer begins: at its first token, or after the reasoning."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from ..base.json_types import JsonObject
from ..guided.call_policy import ReasoningTags, after_reasoning
from ..parsers.base import ParserFactory
from ..postprocess.messages import PostprocessParams
from ..postprocess.postprocessor import starts_in_reasoning


class _GuidedOptions(msgspec.Struct):
    guided_decoding: JsonObject | None = None


class _Guided(msgspec.Struct):
    """The fields of a preprocessed request that say when its grammar begins."""

    sampling_options: _GuidedOptions
    require_reasoning: bool | None = None


class GrammarStart(NamedTuple):
    """Lets the answers of one model reason before their grammar.

    tags: the markers of the reasoning that a grammar must let pass; None if the engine does.
    is_plain: whether the model's workers do not post-process.
    load_parsers: builds the parsers of the model.
    """

    tags: ReasoningTags | None
    is_plain: bool
    load_parsers: Callable[[], ParserFactory]

    def place(self, preprocessed: JsonObject, params: PostprocessParams) -> JsonObject | None:
        """Begin a request's grammar with reasoning, or tell the engine that the answer reasons.

        Return the grammar as it was, in the form of Dynamo's `guided_decoding`.
        A plain worker's engine is told: SGLang's grammars otherwise begin with the first token.
        Other engines, and workers that post-process, find out by themselves.
        Raises `RequestError` as `after_reasoning`.
        """
        decoded = msgspec.convert(preprocessed, _Guided)
        grammar = decoded.sampling_options.guided_decoding
        if grammar is None or (
            self.tags is None and (not self.is_plain or decoded.require_reasoning is True)
        ):
            return grammar
        begins = self._reasons(params, preprocessed["token_ids"])
        if self.tags is None:
            preprocessed["require_reasoning"] = begins
        else:
            options: JsonObject = preprocessed["sampling_options"]
            options["guided_decoding"] = after_reasoning(grammar, self.tags, opened=begins)
        return grammar

    def _reasons(self, params: PostprocessParams, token_ids: Sequence[int]) -> bool:
        return starts_in_reasoning(
            params, self.load_parsers(), token_ids, opened=self.tags is not None
        )
