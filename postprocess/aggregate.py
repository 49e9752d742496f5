"""All deltas of a choice as one delta, for an answer without a stream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from .messages import ChoiceDelta, Delta, FunctionDelta, ToolCallDelta

T = TypeVar("T")


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
            tool_calls=_join_calls(deltas),
        ),
        last.finish_reason,
        last.stop_reason,
        _join([part.logprobs for part in deltas]),
        _join([part.token_ids for part in deltas]),
    )


def _join_calls(deltas: Sequence[ChoiceDelta]) -> list[ToolCallDelta]:
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


def _join(lists: Sequence[list[T] | None]) -> list[T] | None:
    """Return the lists as one, None if there is none."""
    present = [part for part in lists if part is not None]
    return [item for part in present for item in part] if present else None
