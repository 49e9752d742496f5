"""Merges all deltas of a choice into one, for answers that are not streamed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TypeVar

from ..parsers.arguments.json_text import escape_json
from .messages import ChoiceDelta, Delta, FunctionDelta, ToolCallDelta

T = TypeVar("T")


def aggregate_deltas(
    deltas: Sequence[ChoiceDelta], open_calls: Mapping[int, str] = MappingProxyType({})
) -> ChoiceDelta:
    """Merge all deltas of a choice into one.

    open_calls: the calls that become content (`DeltaBuilder.open_calls`).
    """
    last = deltas[-1]
    calls = _join_calls(deltas)
    content = "".join(part.delta.content or "" for part in deltas)
    if open_calls:
        content += _spell_calls(calls, open_calls)
        calls = [call for call in calls if call.index not in open_calls]
    return ChoiceDelta(
        last.index,
        Delta(
            role="assistant",
            content=content or None,
            reasoning_content="".join(part.delta.reasoning_content or "" for part in deltas)
            or None,
            tool_calls=calls,
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


def _spell_calls(calls: Sequence[ToolCallDelta], open_calls: Mapping[int, str]) -> str:
    """Return the open calls, each as the beginning of a JSON object."""
    return "".join(
        f'{{"name": "{escape_json(call.function.name or "")}", '
        f'"arguments": {call.function.arguments}{open_calls[call.index]}'
        for call in calls
        if call.index in open_calls
    )


def _join(lists: Sequence[list[T] | None]) -> list[T] | None:
    """Concatenate the lists; None if all of them are None."""
    present = [part for part in lists if part is not None]
    return [item for part in present for item in part] if present else None
