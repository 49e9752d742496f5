"""Log probabilities in OpenAI's form, with the exact bytes of each token."""

from __future__ import annotations

from typing import Any

from ..tokenization.detokenizer import DetokenizerFactory
from .messages import TokenLogprob, TopLogprob

# JSON has no infinity; vLLM's servers send this instead.
LEAST = -9999.0


class LogprobWriter:
    """Builds one entry per token.

    alternatives: how many `top_logprobs` an entry has; 0 for none.
    as_token_ids: tokens are written as "token_id:<id>".
    """

    def __init__(
        self, detokenizers: DetokenizerFactory, alternatives: int, *, as_token_ids: bool
    ) -> None:
        self._detokenizers = detokenizers
        self._alternatives = alternatives
        self._as_token_ids = as_token_ids

    def entry(self, token_id: int, logprob: float, top: list[dict[str, Any]]) -> TokenLogprob:
        """Return the entry of one token.

        top: the alternatives as the worker sends them, with `rank`, `token_id` and
            `logprob`; the sampled token may be among them.
        """
        ranked = sorted((item for item in top if "token_id" in item), key=_rank)[
            : self._alternatives
        ]
        text, utf8 = self._token(token_id)
        return TokenLogprob(
            text,
            max(logprob, LEAST),
            utf8,
            [
                TopLogprob(*_alternative(self._token(item["token_id"]), item["logprob"]))
                for item in ranked
            ],
        )

    def _token(self, token_id: int) -> tuple[str, list[int]]:
        if self._as_token_ids:
            name = f"token_id:{token_id}"
            return name, list(name.encode())
        utf8 = self._detokenizers.token_bytes(token_id)
        return utf8.decode(errors="replace"), list(utf8)


def _rank(item: dict[str, Any]) -> tuple[int, float]:
    rank = item.get("rank")
    return (rank if isinstance(rank, int) else 1 << 30, -item["logprob"])


def _alternative(token: tuple[str, list[int]], logprob: float) -> tuple[str, float, list[int]]:
    return token[0], max(logprob, LEAST), token[1]
