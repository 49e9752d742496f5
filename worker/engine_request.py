"""One running request of an engine, as its adapter shows it to the worker."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Protocol


class EngineRequestHandle(Protocol):
    """Controls one running request of the engine."""

    def abort(self, index: int) -> Coroutine[object, None, None]:
        """Stop generating a choice."""

    def set_stream_interval(self, index: int, tokens: int) -> None:
        """From now on deliver a choice's tokens in groups of about `tokens`, if possible."""

    def note_call(self, outcome: str) -> None:
        """Take note of a call that has left: "complete", or why it is open."""
        return None  # noqa: RET501 - with an empty body mypy takes it for abstract
