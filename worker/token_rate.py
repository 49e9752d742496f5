"""The token rate of a choice, and the groups in which an engine should deliver its tokens."""

from __future__ import annotations

# Weight of a new measurement in the mean time between tokens.
SMOOTHING = 0.2
MAX_ENGINE_TOKENS = 256


class TokenRate:
    """The token rate of a choice, and the group size in which the engine should deliver."""

    __slots__ = ("_group", "_last", "_token_s")

    def __init__(self) -> None:
        self._last = 0.0
        self._token_s = 0.0
        self._group = 1

    def age_s(self, tokens: int, now: float) -> float:
        """Note `tokens` that arrived now; return how long the first may have waited."""
        last, self._last = self._last, now
        if not last or not tokens:
            return 0.0
        token_s = (now - last) / tokens
        self._token_s = (
            token_s if not self._token_s else self._token_s + SMOOTHING * (token_s - self._token_s)
        )
        return token_s * (tokens - 1) if self._group > 1 else 0.0

    def next_group(self, wait_s: float) -> int | None:
        """Return how many tokens to collect in `wait_s`; None if the number need not change."""
        if not wait_s and self._group == 1:
            return None
        group = max(1, min(MAX_ENGINE_TOKENS, int(wait_s / self._token_s))) if self._token_s else 1
        # Down at once, to keep the delays; up in steps, because each change has a cost.
        if group >= self._group and group < 2 * self._group:
            return None
        self._group = group
        return group
