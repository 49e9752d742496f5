"""For vLLM's `--logits-processors`: the first attempt at a call is a script with a slip.

A request's seed is the number of its script. Another attempt is held to a grammar; there the model
writes what it likes.
"""

from __future__ import annotations

import functools

import torch
from typing_extensions import override
from vllm import SamplingParams
from vllm.v1.sample.logits_processor import RequestLogitsProcessor

from tests.clients.scripted import vllm_logits
from tests.support import encode

FIRST_SEED = 7000
# Outputs with one slip each, in Hermes' format.
SCRIPTS = (
    'I look.\n<tool_call>\n{"name": "get_weather", "arguments": {"city": "Rome"\n</tool_call>',
    'I look.\n<tool_call>\n{"name": "get_weather", "arguments": {"place": "Rome"}}\n</tool_call>',
    '<tool_call>\n{"name": "get_whether", "arguments": {"city": "Rome"}}\n</tool_call>',
    '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Rome" "days": 3}}\n</tool_call>',
    '<tool_call>\n{"name": "get_weather", "arguments": {"city": Rome}}\n</tool_call>',
)
RIGHT = 'Good.\n<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n</tool_call>'


def follow(script: list[int], output: list[int], logits: torch.Tensor) -> torch.Tensor:
    """Return the logits of one row."""
    return vllm_logits.allow(script[min(len(output), len(script) - 1)], logits)


class Slipping(vllm_logits.Scripted):
    """Leaves other requests, and other attempts, as they are."""

    @override
    def new_req_logits_processor(self, params: SamplingParams) -> RequestLogitsProcessor | None:
        number = -1 if params.seed is None else params.seed - FIRST_SEED
        if params.structured_outputs is not None or not 0 <= number <= len(SCRIPTS):
            return None
        text = (*SCRIPTS, RIGHT)[number]
        return functools.partial(follow, encode(text + "<|im_end|>"))
