"""Hooks into a batch while transformers generates it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ...offline.completion import Completion, TokenLogprobs
from ...postprocess.messages import EngineLogprob


class StepFeeder:
    """A stopping criterion that feeds each step's tokens to their completions.

    completions: one per row of the batch. prompt_length: padded, in tokens.
    logprobs: the recorder of this batch, if its rows want logprobs.
    """

    def __init__(
        self,
        completions: Sequence[Completion],
        prompt_length: int,
        logprobs: LogprobRecorder | None,
    ) -> None:
        self._completions = completions
        self._taken = prompt_length
        self._logprobs = logprobs

    def __call__(self, input_ids: torch.Tensor, scores: object, **_: object) -> torch.Tensor:
        """Return which rows have ended, shape (rows,)."""
        new = input_ids[:, self._taken :]
        self._taken = input_ids.shape[1]
        found = self._logprobs.take(new[:, -1]) if self._logprobs is not None else None
        for row, (completion, token_ids) in enumerate(
            zip(self._completions, new.tolist(), strict=True)
        ):
            if not completion.finished:
                completion.feed(token_ids, found[row] if found else None)
        ended = [completion.finished for completion in self._completions]
        return torch.tensor(ended, device=input_ids.device)


class LogprobRecorder:
    """A logits processor that keeps one step's logits before they are modified.

    alternatives: number per token; 0 for only its own logprob.
    """

    def __init__(self, alternatives: int) -> None:
        self._alternatives = alternatives
        self._logprobs: torch.Tensor | None = None

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Keep the logits, shape (rows, vocabulary), and return them."""
        self._logprobs = torch.log_softmax(scores.float(), dim=-1)
        return scores

    def take(self, token_ids: torch.Tensor) -> list[TokenLogprobs]:
        """Return the logprobs of the chosen tokens, shape (rows,)."""
        assert self._logprobs is not None, "no logits"  # noqa: S101 - narrows the type
        own = self._logprobs.gather(1, token_ids[:, None])
        ranks = (self._logprobs > own).sum(dim=1) + 1
        values, indices = self._logprobs.topk(self._alternatives, dim=1)
        return [
            _build_logprobs(*parts)
            for parts in zip(
                token_ids.tolist(),
                own[:, 0].tolist(),
                ranks.tolist(),
                indices.tolist(),
                values.tolist(),
                strict=True,
            )
        ]


def _build_logprobs(
    token_id: int, own: float, rank: int, top_ids: list[int], top: list[float]
) -> TokenLogprobs:
    alternatives = [
        EngineLogprob(other, number, value)
        for number, (other, value) in enumerate(zip(top_ids, top, strict=True), 1)
    ]
    if token_id not in top_ids:
        alternatives.append(EngineLogprob(token_id, rank, own))
    return TokenLogprobs([own], [alternatives])


class RepetitionPenalty:
    """A logits processor that penalizes tokens of prompt and answer, but not padding.

    The one in transformers also counts padding, and therefore the end-of-sequence token if it
    is used for padding.

    mask: of the padded prompts, shape (rows, tokens).
    """

    def __init__(self, penalty: float, mask: torch.Tensor) -> None:
        self._penalty = penalty
        self._mask = mask.bool()

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Return the changed logits, shape (rows, vocabulary)."""
        answer = input_ids.shape[1] - self._mask.shape[1]
        counts = torch.nn.functional.pad(self._mask, (0, answer), value=True)
        seen = torch.zeros_like(scores, dtype=torch.int32)
        seen.scatter_add_(1, input_ids, counts.to(torch.int32))
        penalized = torch.where(scores < 0, scores * self._penalty, scores / self._penalty)
        return torch.where(seen > 0, penalized, scores)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether torch ran out of memory, on a device or on the host."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and "can't allocate memory" in str(error)


def to_tensors(token_ids: Any, mask: Any, device: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Return padded prompts and their mask as tensors, shape (rows, tokens)."""
    return torch.tensor(token_ids, device=device), torch.tensor(mask, device=device)
