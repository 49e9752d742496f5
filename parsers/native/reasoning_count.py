"""Whether a choice is in reasoning, and how many tokens that took, where the parser reads text."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from ..events import Event, Reasoning


class ReasoningCount:
    """Counts the tokens of reasoning.

    A token whose text is held back counts once its text is returned; a marker's never does.

    control_ids: tokens that do not count as reasoning: special and added ones.
    in_reasoning: at the start.
    """

    def __init__(self, control_ids: AbstractSet[int], *, in_reasoning: bool) -> None:
        self.in_reasoning = in_reasoning
        self.tokens = 0
        self._control_ids = control_ids
        self._uncounted = 0  # tokens whose text is held back, so that their kind is not known

    def update(
        self,
        token_ids: Sequence[int],
        events: Sequence[Event],
        *,
        in_reasoning: bool | None,
        passed_marker: bool,
    ) -> None:
        """Take what `token_ids` led to.

        in_reasoning: what the parser says; None if only the events show it.
        passed_marker: the parser has just read a marker.
        """
        reasons = any(isinstance(event, Reasoning) for event in events)
        is_control = not self._control_ids.isdisjoint(token_ids)
        if self.in_reasoning and not is_control:
            self._uncounted += len(token_ids)
        if reasons:
            self.tokens += self._uncounted
        if events or is_control or passed_marker:
            self._uncounted = 0
        if in_reasoning is not None:
            self.in_reasoning = in_reasoning
        elif events:
            self.in_reasoning = all(isinstance(event, Reasoning) for event in events)
