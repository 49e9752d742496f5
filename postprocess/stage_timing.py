"""What each stage of post-processing takes, measured on a few requests; the others are not touched by it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import msgspec

Stage = Literal["detokenize", "stop", "parse", "write", "encode"]
Clock = Callable[[], float]
"""Seconds since whenever, in steps far below a microsecond. The caller's: the core has none of its own."""

# What `Choice` calls of the part that does a stage.
METHODS: dict[Stage, tuple[str, ...]] = {
    "detokenize": ("feed", "feed_all"),
    "stop": ("feed", "flush"),
    "parse": ("reads_together", "feed", "finish", "degrade"),
    "write": ("write", "note", "finish", "take"),
}


class StageTime(msgspec.Struct, array_like=True):
    """How long a stage took for so many tokens."""

    stage: Stage
    seconds: float
    tokens: int


class StageClock:
    """Measures the stages of one choice."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seconds: dict[Stage, float] = {}
        self._tokens = 0

    def timed(self, stage: Stage, part: Any) -> Any:
        """Return `part` with the time of its methods measured."""
        self._seconds[stage] = 0.0
        return _TimedPart(
            part, {name: self._timed(stage, getattr(part, name)) for name in METHODS[stage]}
        )

    def take(self, tokens: int) -> list[StageTime]:
        """Return what was measured since the last call. tokens: of the choice so far."""
        new, self._tokens = tokens - self._tokens, tokens
        times = [StageTime(stage, seconds, new) for stage, seconds in self._seconds.items()]
        self._seconds = dict.fromkeys(self._seconds, 0.0)
        return times

    def _timed(self, stage: Stage, method: Callable[..., Any]) -> Callable[..., Any]:
        clock = self._clock

        def timed(*args: Any, **kwargs: Any) -> Any:
            began = clock()
            try:
                return method(*args, **kwargs)
            finally:
                self._seconds[stage] += clock() - began

        return timed


class _TimedPart:
    """Stands for `part`: calls of `methods` instead of its own, and everything else is its."""

    def __init__(self, part: Any, methods: dict[str, Callable[..., Any]]) -> None:
        self._part = part
        self.__dict__.update(methods)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._part, name)
