"""For vLLM's `--logits-processors`: the first attempt at a call is a script with a slip."""

from __future__ import annotations

import functools

from typing_extensions import override
from vllm import SamplingParams
from vllm.v1.sample.logits_processor import RequestLogitsProcessor

from tests.clients.scripted import vllm_logits

from .scripts import find_script


class Slipping(vllm_logits.Scripted):
    """Leaves other requests, and other attempts, as they are."""

    @override
    def new_req_logits_processor(self, params: SamplingParams) -> RequestLogitsProcessor | None:
        script = find_script(params.seed)
        if script is None or params.structured_outputs is not None:
            return None
        return functools.partial(vllm_logits.follow, script)
