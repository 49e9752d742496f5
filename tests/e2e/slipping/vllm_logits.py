"""For vLLM's `--logits-processors`: the first attempt at a call is a script with a slip."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import torch
from typing_extensions import override
from vllm import SamplingParams
from vllm.v1.sample.logits_processor import RequestLogitsProcessor

from tests.clients.scripted import vllm_logits
from tests.support import encode

from .scripts import BEGINNING, BEGINNING_SEEDS, find_script


class Slipping(vllm_logits.Scripted):
    """Leaves other requests, and other attempts, as they are."""

    @override
    def new_req_logits_processor(self, params: SamplingParams) -> RequestLogitsProcessor | None:
        script = find_script(params.seed)
        if params.structured_outputs is not None:
            return None
        if params.seed in BEGINNING_SEEDS:
            return functools.partial(begin, encode(BEGINNING))
        return None if script is None else functools.partial(vllm_logits.follow, script)


def begin(script: Sequence[int], output: list[int], logits: torch.Tensor) -> torch.Tensor:
    """Return the logits of one row that begins with `script`."""
    begins = len(output) < len(script)
    return vllm_logits.follow(script, output, logits) if begins else logits
