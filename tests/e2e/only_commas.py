"""A plugin that changes logits in vLLM, of the rows with one seed; others stay as they are."""

from __future__ import annotations

import torch
from backedge.offline import Plugin
from typing_extensions import override
from vllm import SamplingParams
from vllm.v1.sample.logits_processor import AdapterLogitsProcessor, RequestLogitsProcessor

from tests.e2e.offline_batch import COMMA_SEED
from tests.support import encode

[COMMA] = encode(",")


def allow_comma(_: list[int], logits: torch.Tensor) -> torch.Tensor:
    """Return the logits of one row, shape (vocabulary,)."""
    masked = torch.full_like(logits, float("-inf"))
    masked[COMMA] = 0
    return masked


class CommaProcessor(AdapterLogitsProcessor):
    """vLLM's own form of a logits processor."""

    @override
    def is_argmax_invariant(self) -> bool:
        return False

    @override
    def new_req_logits_processor(self, params: SamplingParams) -> RequestLogitsProcessor | None:
        return allow_comma if params.seed == COMMA_SEED else None


class OnlyCommas(Plugin):
    name = "only_commas"
    backends = ("vllm",)

    @override
    def logits_processor(self, backend: str) -> type[CommaProcessor]:
        return CommaProcessor
