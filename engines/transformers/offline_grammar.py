"""Constrains the answers of transformers to grammars, with xgrammar."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Collection, Sequence
from typing import Any

import torch

from ...base.errors import RequestError
from ...base.limits import MAX_GRAMMARS_BYTES
from ...guided.client_schemas import find_keyword
from ...guided.reasoned_answer import to_tag_format
from ...offline.constraints import Grammar
from ...offline.rows import RowFailure

# Keywords that xgrammar 0.2 ignores, so that answers might violate them.
NOT_HELD = frozenset(
    "multipleOf uniqueItems contains minContains maxContains not if then else "
    "dependentRequired dependentSchemas".split()
)


def has_xgrammar() -> bool:
    """Whether xgrammar is installed."""
    return importlib.util.find_spec("xgrammar") is not None


class Grammars:
    """Compiles the grammars of rows for one model.

    tokenizer: of transformers. vocabulary_size: of the model's logits.
    """

    def __init__(self, tokenizer: Any, vocabulary_size: int) -> None:
        import xgrammar

        info = xgrammar.TokenizerInfo.from_huggingface(tokenizer, vocab_size=vocabulary_size)
        self._compiler = xgrammar.GrammarCompiler(info, cache_limit_bytes=MAX_GRAMMARS_BYTES)

    def compile(self, grammar: Grammar) -> Any:
        """Compile a row's grammar with xgrammar. Raises `RowFailure` if that fails."""
        word = find_keyword(grammar.answer.get("json"), NOT_HELD)
        if word is not None:
            raise RowFailure(
                "request",
                f"the schema uses {word!r}, which xgrammar cannot enforce; leave it "
                "out, and check the answers.",
            )
        try:
            tag = {"type": "structural_tag", "format": to_tag_format(grammar.guided)}
            return self._compiler.compile_structural_tag(json.dumps(tag))
        except (RuntimeError, ValueError, TypeError, RequestError) as error:
            raise RowFailure("request", f"xgrammar rejects the grammar: {error}") from error


class GrammarMask:
    """A logits processor that allows only the tokens of the grammars.

    compiled: of each row of the batch, shape (rows,); None for a row without a grammar.
    prompt_length: padded, in tokens. stop_token_ids: end a complete answer.
    """

    def __init__(
        self, compiled: Sequence[Any], prompt_length: int, stop_token_ids: Collection[int]
    ) -> None:
        import xgrammar

        self._apply = xgrammar.apply_token_bitmask_inplace
        self._matchers = {
            row: xgrammar.GrammarMatcher(grammar, override_stop_tokens=list(stop_token_ids) or None)
            for row, grammar in enumerate(compiled)
            if grammar is not None
        }
        [info, *_] = [grammar.tokenizer_info for grammar in compiled if grammar is not None]
        self._mask = xgrammar.allocate_token_bitmask(len(compiled), info.vocab_size)
        self._taken = prompt_length

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Return the logits, shape (rows, vocabulary), with those that are not allowed at -inf."""
        new = input_ids[:, self._taken :].tolist()
        self._taken = input_ids.shape[1]
        for row in list(self._matchers):
            self._advance(row, new[row])
        if self._matchers:
            self._apply(scores, self._mask.to(scores.device))
        return scores

    def _advance(self, row: int, token_ids: Sequence[int]) -> None:
        """Accept a row's new tokens and compute which may follow; ended rows may continue."""
        matcher = self._matchers[row]
        taken = all(matcher.accept_token(token_id) for token_id in token_ids)
        if taken and not matcher.is_terminated():
            matcher.fill_next_token_bitmask(self._mask, row)
        else:
            # Further tokens are padding, or follow a stop string.
            self._mask[row] = -1
            del self._matchers[row]
