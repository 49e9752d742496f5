"""For vLLM's `--logits-processors`: a model that slips at first, and then writes what it meant.

At another attempt, which is held to a grammar, the model only prefers its script's tokens.
"""

from __future__ import annotations

import functools

import torch
from typing_extensions import override
from vllm import SamplingParams
from vllm.v1.sample.logits_processor import RequestLogitsProcessor

from tests.clients.scripted import vllm_logits
from tests.slips.scripts import PREFERRED, Script, find_preferred, find_script


def prefer(
    script: Script, prompt: list[int], output: list[int], logits: torch.Tensor
) -> torch.Tensor:
    """Return the logits of one row of another attempt."""
    raised = logits.clone()
    raised[find_preferred(script, prompt, output)] += PREFERRED
    return raised


class Slipping(vllm_logits.Scripted):
    """Leaves requests without a script as they are."""

    @override
    def new_req_logits_processor(self, params: SamplingParams) -> RequestLogitsProcessor | None:
        script = find_script(params.seed)
        if script is None:
            return None
        if params.structured_outputs is None:
            return functools.partial(vllm_logits.follow, script["first"])
        return functools.partial(prefer, script)
