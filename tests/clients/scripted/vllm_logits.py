"""For vLLM's `--logits-processors`: the script's next token is the only one."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from typing_extensions import override
from vllm import SamplingParams
from vllm.v1.sample.logits_processor import AdapterLogitsProcessor, RequestLogitsProcessor

from .script import next_token


def allow(token_id: int, logits: torch.Tensor) -> torch.Tensor:
    """Return the logits of one row, whose next token is this one."""
    masked = torch.full_like(logits, float("-inf"))
    masked[token_id] = 0
    return masked


def follow(script: Sequence[int], output: list[int], logits: torch.Tensor) -> torch.Tensor:
    """Return the logits of one row that writes `script`, and its last token again."""
    return allow(script[min(len(output), len(script) - 1)], logits)


def follow_script(prompt: list[int], output: list[int], logits: torch.Tensor) -> torch.Tensor:
    """Return the logits of one row."""
    return allow(next_token(prompt, output), logits)


class Scripted(AdapterLogitsProcessor):
    """Follows the script in each request."""

    @override
    def is_argmax_invariant(self) -> bool:
        return False

    @override
    def new_req_logits_processor(self, params: SamplingParams) -> RequestLogitsProcessor | None:
        return follow_script
