"""Replays a request, and compares the two sides."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ...base.errors import SetupError
from ...postprocess.messages import Chunk
from ...recording.comparison import Difference, Given, find_difference, split_parts
from ...recording.kept_text import declared_names
from ...recording.recording import Recording
from ...recording.rerun import cut, read_sent, rerun
from ..recorded_model import LoadedModel, ParserChoice

SENT = "sent"


class Comparison(NamedTuple):
    """Two sides of one request. differences: of the choices that differ."""

    left: str
    right: str
    differences: list[Difference]


def compare(
    recording: Recording,
    left: list[Given],
    right: list[Given],
    *,
    is_sent: bool,
    is_cut: bool = False,
) -> list[Difference]:
    """Return the first difference of each choice.

    is_sent: the left side is what the client got, which has no text in a redacted recording.
    is_cut: the left side may end early.
    """
    declared = None
    if is_sent and recording.redacted:
        declared = frozenset(declared_names(recording.params.parser.tools))
    found = (
        find_difference(
            split_parts(left, index, declared),
            split_parts(right, index, declared),
            index,
            left_is_cut=is_cut,
        )
        for index in range(recording.params.n)
    )
    return [difference for difference in found if difference is not None]


def replay(
    recording: Recording,
    model: LoadedModel,
    against: Callable[[list[Chunk]], tuple[list[Given], str]] | None,
    choice: ParserChoice,
    *,
    cuts: str,
    seed: int,
) -> Comparison:
    """Replay a request and compare the result.

    against: gives the left side for its chunks; None to compare with what was sent.
    Raises `SetupError`.
    """
    chunks = cut(recording, cuts, seed)
    parts, name = model.build(choice)
    right = rerun(recording, parts, chunks)
    if against is not None:
        left, left_name = against(chunks)
        return Comparison(left_name, name, compare(recording, left, right, is_sent=False))
    is_cut = recording.outcome != "finished" or recording.dropped > 0
    found = compare(recording, read_sent(recording), right, is_sent=True, is_cut=is_cut)
    return Comparison(SENT, name, found)


def check_comparable(recording: Recording) -> None:
    """Raise `SetupError` for a recording without anything to compare."""
    if not recording.chunks:
        raise SetupError(
            f"request {recording.params.response_id} has no tokens ({recording.outcome}"
            f"{': ' + recording.error if recording.error else ''}); choose another one."
        )
