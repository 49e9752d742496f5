"""For vLLM's `--logits-processors`: a request's `vllm_xargs` say what the model writes.

"script": the ids of all tokens. Other requests with `SEED` write the answer of a made-up format;
those with `THINKING_SEED` write its reasoning, and then what they like.
"""

from __future__ import annotations

from functools import partial

import torch
from typing_extensions import override
from vllm import SamplingParams
from vllm.v1.sample.logits_processor import RequestLogitsProcessor

from tests.clients.scripted import vllm_logits
from tests.parsers.made_up import ANSWER, SEED, THINKING_SEED, THOUGHT
from tests.support import encode

# The grammar of a strict tool has no white space around a value.
SCRIPT = encode(ANSWER.replace("> Rome <", ">Rome<") + "<|im_end|>")
REASONING = encode(THOUGHT)


def think(output: list[int], logits: torch.Tensor) -> torch.Tensor:
    """Return the logits of one row that thinks as scripted."""
    if len(output) < len(REASONING):
        return vllm_logits.allow(REASONING[len(output)], logits)
    return logits


class Scripted(vllm_logits.Scripted):
    """Leaves other requests as they are."""

    @override
    def new_req_logits_processor(self, params: SamplingParams) -> RequestLogitsProcessor | None:
        if script := (params.extra_args or {}).get("script"):
            return partial(vllm_logits.follow, script)
        return {SEED: partial(vllm_logits.follow, SCRIPT), THINKING_SEED: think}.get(params.seed)
