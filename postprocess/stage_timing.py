"""Measures the time of each stage of post-processing, in a few requests.

In all other requests `StageClock.measure` returns the stages unchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, ParamSpec, TypeVar, cast

import msgspec

Stage = Literal["detokenize", "stop", "parse", "write", "encode"]
Clock = Callable[[], float]
"""A clock in seconds, from any start, with a resolution far below a microsecond."""

# The methods that do the work of a stage.
METHODS: dict[Stage, tuple[str, ...]] = {
    "detokenize": ("feed", "feed_all"),
    "stop": ("feed", "flush"),
    "parse": ("reads_together", "feed", "finish", "degrade"),
    "write": ("write", "annotate", "finish", "take"),
}

P = ParamSpec("P")
T = TypeVar("T")


class StageTime(msgspec.Struct, array_like=True, gc=False):
    """The seconds that a stage took for a number of tokens."""

    stage: Stage
    seconds: float
    tokens: int


class StageClock:
    """Measures the stages of one choice. clock: None to measure nothing."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock
        self._seconds: dict[Stage, float] = {}
        self._tokens = 0

    def measure(self, stage: Stage, part: T) -> T:
        """Return `part` with its methods measured; `part` itself if there is no clock."""
        if self._clock is None:
            return part
        self._seconds[stage] = 0.0
        methods = {
            name: self._measure(stage, self._clock, getattr(part, name)) for name in METHODS[stage]
        }
        return cast("T", _MeasuredPart(part, methods))

    def take(self, tokens: int) -> list[StageTime]:
        """Return the times since the last call. tokens: the choice's tokens so far."""
        if self._clock is None:
            return []
        new, self._tokens = tokens - self._tokens, tokens
        times = [StageTime(stage, seconds, new) for stage, seconds in self._seconds.items()]
        self._seconds = dict.fromkeys(self._seconds, 0.0)
        return times

    def _measure(self, stage: Stage, clock: Clock, method: Callable[P, T]) -> Callable[P, T]:
        def measured(*args: P.args, **kwargs: P.kwargs) -> T:
            began = clock()
            try:
                return method(*args, **kwargs)
            finally:
                self._seconds[stage] += clock() - began

        return measured


class _MeasuredPart:
    """A proxy of `part` with some `methods` replaced."""

    def __init__(self, part: object, methods: dict[str, Callable[..., object]]) -> None:
        self._part = part
        self.__dict__.update(methods)

    def __getattr__(self, name: str) -> object:
        return getattr(self._part, name)
