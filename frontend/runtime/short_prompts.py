"""Which prompts are made in the event loop: those that take less time than the way to a thread.

The way there and back wakes two threads, which then compete for the interpreter. That nothing long
happens in the event loop is measured for each model, since its chat template may do anything.
"""

from __future__ import annotations

from ..request.chat_request import ChatRequest

MAX_SHORT_CHARACTERS = 2_000
MAX_SHORT_MESSAGES = 16
# CPU time of a short prompt. Streams wait as long for an event loop that makes one.
MAX_SHORT_MS = 2
# So many short prompts in succession have taken less, before any is made in the event loop.
TRUSTED_AFTER = 64


def is_short(request: ChatRequest) -> bool:
    """Whether a prompt is short, as far as the request shows without being walked."""
    return (
        len(request.messages) <= MAX_SHORT_MESSAGES
        and not request.tools
        and request.response_format is None
        and request.guided_json is None
        and request.characters <= MAX_SHORT_CHARACTERS
    )


class ShortPrompts:
    """Keeps account of the short prompts of one model."""

    def __init__(self) -> None:
        self._quick = 0

    @property
    def trusted(self) -> bool:
        """Whether the next one may be made in the event loop."""
        return self._quick >= TRUSTED_AFTER

    def note(self, cpu_s: float) -> None:
        """Take the CPU time that one has taken, wherever it was made."""
        self._quick = 0 if cpu_s * 1000 > MAX_SHORT_MS else self._quick + 1
