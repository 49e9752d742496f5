"""Log probabilities in OpenAI's form, with the exact bytes of each token."""

from __future__ import annotations

import math

from ..tokenization.detokenizer import DetokenizerFactory
from .messages import Chunk, EngineLogprob, TokenLogprob, TopLogprob

# JSON has neither infinity nor NaN; vLLM's servers send this value for minus infinity.
LEAST = -9999.0
# Sorts alternatives without a rank last.
UNRANKED = 1 << 30


class LogprobBuilder:
    """Builds one entry per token.

    alternatives: number of `top_logprobs` per entry.
    as_token_ids: tokens are written as "token_id:<id>".
    """

    def __init__(
        self, detokenizers: DetokenizerFactory, alternatives: int, *, as_token_ids: bool
    ) -> None:
        self._detokenizers = detokenizers
        self._alternatives = alternatives
        self._as_token_ids = as_token_ids

    def build(self, chunk: Chunk, position: int) -> TokenLogprob:
        """Return the entry of the token at `position`; `chunk` must have logprobs.

        The sampled token may be among the alternatives.
        """
        lists = chunk.top_logprobs or ()
        alternatives = lists[position] if position < len(lists) else []
        known = (item for item in alternatives if item.token_id is not None)
        ranked = sorted(known, key=_rank)[: self._alternatives]
        text, utf8 = self._token(chunk.token_ids[position])
        return TokenLogprob(
            text,
            finite((chunk.logprobs or ())[position]),
            utf8,
            [self._alternative(item) for item in ranked],
        )

    def _alternative(self, item: EngineLogprob) -> TopLogprob:
        text, utf8 = self._token(item.token_id or 0)
        return TopLogprob(text, finite(item.logprob), utf8)

    def _token(self, token_id: int) -> tuple[str, list[int]]:
        if self._as_token_ids:
            name = f"token_id:{token_id}"
            return name, list(name.encode())
        utf8 = self._detokenizers.token_bytes(token_id)
        return utf8.decode(errors="replace"), list(utf8)


def finite(logprob: float) -> float:
    """Return `logprob`, or `LEAST` if it is lower or JSON cannot express it."""
    return max(logprob, LEAST) if math.isfinite(logprob) else LEAST


def _rank(item: EngineLogprob) -> tuple[int, float]:
    return (UNRANKED if item.rank is None else item.rank, -finite(item.logprob))
