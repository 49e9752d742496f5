"""The deltas of one choice as one: what `stream: false` sends."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .messages import ChoiceDelta, Delta, FunctionDelta, ToolCallDelta


class Fold:
    """Collects the deltas of a choice; `whole` is their sum.

    The parts are kept and joined once, so a long answer costs linear time.
    """

    def __init__(self, index: int) -> None:
        self._index = index
        self._deltas: list[ChoiceDelta] = []

    def add(self, deltas: Iterable[ChoiceDelta]) -> None:
        """Add `deltas`, in order."""
        self._deltas += deltas

    @property
    def whole(self) -> ChoiceDelta:
        """The sum of all deltas added."""
        last = self._deltas[-1]
        return ChoiceDelta(
            self._index,
            Delta(
                role="assistant",
                content="".join(part.delta.content or "" for part in self._deltas) or None,
                reasoning_content="".join(part.delta.reasoning_content or "" for part in self._deltas) or None,
                tool_calls=self._calls(),
            ),
            last.finish_reason,
            last.stop_reason,
            self._joined("logprobs"),
            self._joined("token_ids"),
        )

    def _calls(self) -> list[ToolCallDelta]:
        calls: dict[int, ToolCallDelta] = {}
        arguments: dict[int, list[str]] = {}
        for part in self._deltas:
            for call in part.delta.tool_calls:
                calls.setdefault(call.index, call)
                arguments.setdefault(call.index, []).append(call.function.arguments)
        return [
            ToolCallDelta(index, FunctionDelta("".join(arguments[index]), call.function.name), call.id, call.type)
            for index, call in calls.items()
        ]

    def _joined(self, field: str) -> list[Any] | None:
        parts = [value for part in self._deltas if (value := getattr(part, field)) is not None]
        return [item for part in parts for item in part] if parts else None
