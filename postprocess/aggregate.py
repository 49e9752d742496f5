"""The deltas of one choice as one: what `stream: false` sends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .messages import ChoiceDelta, Delta, FunctionDelta, ToolCallDelta


def aggregate_deltas(deltas: Sequence[ChoiceDelta]) -> ChoiceDelta:
    """Return the sum of all deltas of a choice."""
    last = deltas[-1]
    return ChoiceDelta(
        last.index,
        Delta(
            role="assistant",
            content="".join(part.delta.content or "" for part in deltas) or None,
            reasoning_content="".join(part.delta.reasoning_content or "" for part in deltas)
            or None,
            tool_calls=_calls(deltas),
        ),
        last.finish_reason,
        last.stop_reason,
        _joined(deltas, "logprobs"),
        _joined(deltas, "token_ids"),
    )


def _calls(deltas: Sequence[ChoiceDelta]) -> list[ToolCallDelta]:
    calls: dict[int, ToolCallDelta] = {}
    arguments: dict[int, list[str]] = {}
    for part in deltas:
        for call in part.delta.tool_calls:
            calls.setdefault(call.index, call)
            arguments.setdefault(call.index, []).append(call.function.arguments)
    return [
        ToolCallDelta(
            index, FunctionDelta("".join(arguments[index]), call.function.name), call.id, call.type
        )
        for index, call in calls.items()
    ]


def _joined(deltas: Sequence[ChoiceDelta], field: str) -> list[Any] | None:
    parts = [value for part in deltas if (value := getattr(part, field)) is not None]
    return [item for part in parts for item in part] if parts else None
