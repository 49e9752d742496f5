"""Hostile output of every linear format, through a worker."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from backedge.base.errors import ParserFailedError
from backedge.parsers.base import ParserFactory, ParserRequest
from backedge.parsers.format import Format
from backedge.parsers.formats.catalog import FORMATS
from backedge.parsers.linear_parsers import LinearParsers, Vocabulary
from backedge.postprocess import Chunk
from backedge.postprocess.delta_builder import aggregate_deltas
from backedge.postprocess.messages import ChoiceDelta
from backedge.postprocess.settings import PostprocessSettings
from backedge.worker.backend import InlineBackend, NewRequest
from hypothesis import given
from hypothesis import strategies as st

from tests.hostile.campaign import WHOLE, examples
from tests.hostile.hostile_text import LONG, SHORT, build_runs, check_deltas, draw_output
from tests.parsers.families import FAMILIES
from tests.parsers.families.family import TOOLS
from tests.support import encode, params, tiny_detokenizers
from tests.worker.scripted import LOWEST

ALL = pytest.mark.parametrize("format_", FORMATS, ids=lambda format_: format_.name)
HONEST = "An honest answer."


def build_parsers(format_: Format) -> LinearParsers:
    tools = format_ if format_.parses_tools else None
    reasoning = format_ if format_.parses_reasoning else None
    return LinearParsers(tools, reasoning, Vocabulary())  # markers as text


def list_markers(format_: Format) -> list[str]:
    return sorted({marker for states in format_.states.values() for marker in states if marker})


def list_outputs(format_: Format) -> list[str]:
    family = FAMILIES.get(format_.name)
    cases = [] if family is None else family.all_cases()
    return [case.output for case in cases if len(case.output) < 400]


@dataclass
class Worker:
    """Post-processes as a worker does, without an event loop. honest: what a model writes."""

    parsers: ParserFactory
    honest: str
    failures: list[ParserFailedError] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._backend = InlineBackend(
            tiny_detokenizers(),
            self.parsers,
            PostprocessSettings(delays=LOWEST),
            self.failures.append,
        )
        self.expected = self.answer(self.honest)

    def answer(
        self, text: str, cuts: Sequence[int] = (), reason: str = "stop"
    ) -> list[ChoiceDelta]:
        """Return the deltas of an answer. cuts: where chunks begin."""
        request = params(parser=ParserRequest(tools=list(TOOLS), tool_choice="auto"))
        stream = self._backend.start(NewRequest(request, [], 0.0))
        ids = encode(text)
        edges = [0, *sorted({cut % (len(ids) + 1) for cut in cuts}), len(ids)]
        deltas: list[ChoiceDelta] = []
        for first, last in itertools.pairwise(edges):
            stream.add(Chunk(token_ids=ids[first:last]), 0.0)
            deltas += [delta for part in stream.take(0.0) for delta in part.deltas]
        stream.add(Chunk(finish_reason=reason), 0.0)
        return deltas + [delta for part in stream.take(0.0) for delta in part.deltas]

    def check(self, text: str, cuts: Sequence[int] = (), reason: str = "stop") -> None:
        """Check the answer, and that the next one is as it was."""
        check_deltas(self.answer(text, cuts, reason))
        assert self.failures == []
        assert without_ids(self.answer(self.honest)) == without_ids(self.expected)


def without_ids(deltas: Sequence[ChoiceDelta]) -> ChoiceDelta:
    """Return an answer without its calls' ids, which are random."""
    whole = aggregate_deltas(deltas)
    for call in whole.delta.tool_calls:
        call.id = None
    return whole


BY_NAME = {format_.name: format_ for format_ in FORMATS}


@functools.cache
def build_worker(name: str) -> Worker:
    format_ = BY_NAME[name]
    return Worker(build_parsers(format_), (list_outputs(format_) or [HONEST])[0])


@ALL
@examples(5)
@given(data=st.data())
def test_hostile_output(format_: Format, data: st.DataObject) -> None:
    text = data.draw(draw_output(list_outputs(format_), list_markers(format_), 300))
    cuts = data.draw(st.lists(st.integers(0, 2000), max_size=6))
    reason = data.draw(st.sampled_from(["stop", "length"]))
    build_worker(format_.name).check(text, cuts, reason)


@ALL
def test_every_piece_within_an_honest_output(format_: Format) -> None:
    worker = build_worker(format_.name)
    outputs = list_outputs(format_)[:: 1 if WHOLE else 12] or ["".join(list_markers(format_))]
    for number, piece in enumerate(SHORT):
        honest = outputs[number % len(outputs)]
        middle = len(honest) * (number % 7 + 1) // 8
        worker.check(honest[:middle] + piece + honest[middle:])


@ALL
def test_long_runs(format_: Format) -> None:
    """Of everything, behind what opens arguments; each marker too, again and again."""
    worker, markers = build_worker(format_.name), list_markers(format_)
    openers = ["", *(text[: len(text) * 2 // 3] for text in list_outputs(format_)[:1])]
    runs = [*build_runs(LONG), *(marker * (LONG // len(marker)) for marker in markers)]
    for number, run in enumerate(runs):
        if not WHOLE and number % 4 != len(format_.name) % 4:
            continue
        worker.check(openers[number % len(openers)] + run, reason="length")
