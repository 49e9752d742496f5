"""Batches in the form of transformers: padded on the left, so that answers begin together."""

from __future__ import annotations

from collections.abc import Sequence

from ...base.errors import SetupError


def pad_left(
    prompts: Sequence[Sequence[int]], pad_token_id: int
) -> tuple[list[list[int]], list[list[int]]]:
    """Return token ids and attention mask, both of shape (rows, tokens of the longest prompt)."""
    length = max(map(len, prompts))
    padding = [length - len(prompt) for prompt in prompts]
    token_ids = [
        [pad_token_id] * pad + list(prompt) for pad, prompt in zip(padding, prompts, strict=True)
    ]
    mask = [[0] * pad + [1] * (length - pad) for pad in padding]
    return token_ids, mask


def choose_pad_token(pad_token_id: int | None, eos_token_ids: Sequence[int]) -> int:
    """Return the token for padding: the model's, or its first end-of-sequence token.

    Raises `SetupError` for a model that has neither.
    """
    if pad_token_id is not None:
        return pad_token_id
    if not eos_token_ids:
        raise SetupError(
            "the model has neither a pad token nor an end-of-sequence token; set one in "
            "tokenizer_config.json, or generate one row at a time (engine_args batch_size 1)."
        )
    return eos_token_ids[0]
