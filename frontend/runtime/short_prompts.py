"""Decides which prompts are made in the event loop: those that take less time than a thread switch.

The way there and back wakes two threads, which then compete for the interpreter. The time
is measured for each model, since its chat template may do anything.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from ...base.limits import MAX_MEAN_MS, MAX_SHORT_CHARACTERS, MAX_SHORT_MESSAGES, MAX_SHORT_MS
from ...engines.dynamo.types import Context
from ..request.chat_request import ChatRequest
from .prompt_queue import PromptQueue, call_contained

R = TypeVar("R")

# So many short prompts in succession have taken less, before any is made in the event loop.
TRUSTED_AFTER = 64
# The weight of a new measurement in the average.
SMOOTHING = 1 / 32


def is_short(request: ChatRequest) -> bool:
    """Whether a prompt is short, judged without walking the request."""
    return (
        len(request.messages) <= MAX_SHORT_MESSAGES
        and not request.tools
        and request.response_format is None
        and request.guided_json is None
        and request.characters <= MAX_SHORT_CHARACTERS
    )


class ShortPrompts:
    """Records the CPU time of one model's short prompts."""

    def __init__(self) -> None:
        self._quick = 0
        self._mean_ms = 0.0

    @property
    def trusted(self) -> bool:
        """Whether the next one may be built in the event loop."""
        return self._quick >= TRUSTED_AFTER and self._mean_ms <= MAX_MEAN_MS

    async def make(
        self,
        function: Callable[[ChatRequest], R],
        request: ChatRequest,
        queue: PromptQueue,
        context: Context | None,
    ) -> R:
        """Call `function(request)` for a short request, directly or in a thread of `queue`.

        Raises as `PromptQueue.run`.
        """

        def timed(request: ChatRequest) -> R:
            began = time.thread_time()
            try:
                return function(request)
            finally:
                self.note(time.thread_time() - began)

        if self.trusted:
            return call_contained(timed, request)
        return await queue.run(timed, request, characters=request.characters, context=context)

    def note(self, cpu_s: float) -> None:
        """Record the CPU time of a short prompt."""
        cpu_ms = cpu_s * 1000
        self._quick = 0 if cpu_ms > MAX_SHORT_MS else self._quick + 1
        self._mean_ms += SMOOTHING * (cpu_ms - self._mean_ms)
