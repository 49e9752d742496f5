"""Generates the malformed calls of a batch again: the model writes each once more, under a grammar.

A row's answer is generated as any other. If it has a malformed call, another row of the same back
end goes on where that call began, held to the grammar of calls, after which all is free again.
docs/malformed-calls.md has the rules, which are those of workers.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from typing import Self

import msgspec
from typing_extensions import override

from ..base.json_types import JsonObject
from ..guided.call_again import AttemptBudget, build_call_grammar, count_kept
from ..parsers.format import Format
from .completion import Completion
from .rows import Grammar, Prompt, Row


@dataclass
class _Answer:
    """A row whose calls may be generated again. due: how many attempts have not ended."""

    row: Row
    format: Format
    due: int = 0
    budget: AttemptBudget = field(default_factory=AttemptBudget)


@dataclass
class _Attempt(Row):
    """A row that goes on within one choice of another. place: of the choice."""

    answer: _Answer | None = None
    place: int = 0


class _Pending(Iterator[Row]):
    """The rows of a batch, and attempts as they become due, which come first."""

    def __init__(self, rows: Iterator[Row]) -> None:
        self._rows = rows
        self.attempts: deque[_Attempt] = deque()

    def __iter__(self) -> Self:
        return self

    @override
    def __next__(self) -> Row:
        return self.attempts.popleft() if self.attempts else next(self._rows)

    def settle(self, row: Row) -> Row | None:
        """Take a row that has ended; return the one that is done with it, if any."""
        if isinstance(row, _Attempt) and row.answer is not None:
            answer, places = row.answer, [row.place]
            answer.due -= 1
            if row.error is None and row.completions[0].error is None:
                answer.row.completions[row.place] = row.completions[0]
            else:
                places = []  # the engine refuses the attempt: the call stays open
        elif row.error is None and row.calls is not None:
            answer, places = _Answer(row, row.calls), [*range(len(row.completions))]
        else:
            return row
        for place in places:
            if (attempt := _plan(answer, place)) is not None:
                answer.due += 1
                self.attempts.append(attempt)
        return None if answer.due else answer.row


def generate_again(
    generate: Callable[[Iterator[Row]], Generator[Row, None, None]], rows: Iterator[Row]
) -> Generator[Row, None, None]:
    """Yield the rows that a back end generates, once no call of theirs is to be generated again.

    generate: `Backend.generate`.
    """
    pending = _Pending(rows)
    while True:
        with contextlib.closing(generate(pending)) as generated:
            for row in generated:
                if (done := pending.settle(row)) is not None:
                    yield done
        if not pending.attempts:
            return


def _plan(answer: _Answer, place: int) -> _Attempt | None:
    """Return another attempt at a malformed call of a choice; None if it stays as it is."""
    row, completion = answer.row, answer.row.completions[place]
    faulty = None if completion.error is not None else completion.find_fault()
    if faulty is None:
        return None
    setup, rest = completion.setup, completion.token_ids[faulty.kept :]
    lead, text = count_kept(answer.format, rest, setup.detokenizers.read)
    kept = faulty.kept + lead
    discarded = len(completion.token_ids) - kept
    left = None if row.max_new_tokens is None else row.max_new_tokens - kept
    has_room = left is None or left > 0
    if not has_room or not answer.budget.allows((place, kept), discarded):
        return None
    grammar = build_call_grammar(answer.format, setup.parser_request, text)
    if grammar is None:
        return None
    answer.budget.spend((place, kept), discarded)
    return _go_on(answer, place, kept, left, grammar)


def _go_on(
    answer: _Answer, place: int, kept: int, left: int | None, grammar: JsonObject
) -> _Attempt:
    """Return the row that goes on after a choice's first `kept` tokens."""
    row, completion = answer.row, answer.row.completions[place]
    min_tokens = max(0, row.sampling.min_tokens - kept)

    def build() -> list[Completion]:
        return [completion.begin(kept)]

    return _Attempt(
        row.index,
        row.request_id,
        Prompt([*row.prompt.token_ids, *completion.token_ids[:kept]]),
        msgspec.structs.replace(row.sampling, n=1, min_tokens=min_tokens),
        left,
        row.stop_token_ids,
        build,
        grammar=Grammar(grammar, grammar, json_calls=False),
        lora=row.lora,
        answer=answer,
        place=place,
    )
