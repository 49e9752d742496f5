"""Merges all deltas of a choice into one, for answers that are not streamed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from ..parsers.arguments.json_text import escape_json
from .messages import ChoiceDelta, Delta, FunctionDelta, ToolCallDelta

T = TypeVar("T")


def aggregate_deltas(
    deltas: Sequence[ChoiceDelta], open_calls: Mapping[int, str] | None = None
) -> ChoiceDelta:
    """Merge all deltas of a choice into one.

    open_calls: the calls that become content (`DeltaBuilder.open_calls`).
    """
    last = deltas[-1]
    calls = _join_calls(deltas)
    content = "".join(part.delta.content or "" for part in deltas)
    for call in calls:
        if open_calls and call.index in open_calls:
            content += _spell_call(call, open_calls[call.index])
    if open_calls:
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


def _spell_call(call: ToolCallDelta, rest: str) -> str:
    """Return an open call as the beginning of a JSON object. rest: what no delta has of it."""
    function = call.function
    name = escape_json(function.name or "")
    return f'{{"name": "{name}", "arguments": {function.arguments}{rest}'


def _join(lists: Sequence[list[T] | None]) -> list[T] | None:
    """Concatenate the lists; None if all of them are None."""
    present = [part for part in lists if part is not None]
    return [item for part in present for item in part] if present else None
