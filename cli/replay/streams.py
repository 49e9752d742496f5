"""The parsers of a replay, and the comparison of its two sides."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ...base.errors import SetupError
from ...parsers.base import ParserNames
from ...parsers.parser_lookup import Kind
from ...postprocess.messages import Chunk
from ...recording.comparison import Difference, Given, find_difference, split_parts
from ...recording.kept_text import declared_names
from ...recording.recording import RecordedModel, Recording
from ...recording.rerun import Parts, cut, read_sent, rerun
from ...tokenization.detokenizer import DetokenizerFactory, detokenizers
from ..recorded_model import build_parsers, read_tokenizer

SENT = "sent"


class ParserChoice(NamedTuple):
    """The parsers to use; None: as recorded. engine: whose native ones."""

    tool_call: str | None = None
    reasoning: str | None = None
    kind: Kind | None = None
    engine: str | None = None

    def names(self, model: RecordedModel) -> ParserNames:
        """Return the names for a recorded model; an empty name means no parser."""
        recorded = model.parsers
        tool_call = recorded.tool_call if self.tool_call is None else self.tool_call
        reasoning = recorded.reasoning if self.reasoning is None else self.reasoning
        return ParserNames(tool_call or None, reasoning or None)

    def choose_kind(self, model: RecordedModel) -> Kind:
        """Return "linear", "native" or "auto" for a recorded model."""
        return model.kind if self.kind is None else self.kind


class LoadedModel:
    """The tokenizer of a recorded model. path: its folder; None: as recorded.

    Raises `SetupError` if no tokenizer can be read there.
    """

    def __init__(self, recorded: RecordedModel, path: str | None) -> None:
        self.recorded = recorded
        self.path = path or recorded.path
        self.tokenizer = read_tokenizer(self.path)
        self.detokenizers: DetokenizerFactory = detokenizers(self.tokenizer)

    def build(self, choice: ParserChoice) -> tuple[Parts, str]:
        """Build the parsers; return them and their name. Raises `SetupError`."""
        names = choice.names(self.recorded)
        engine = self.recorded.engine if choice.engine is None else choice.engine
        parsers, kind = build_parsers(
            names, choice.choose_kind(self.recorded), self.path, self.tokenizer, engine
        )
        return Parts(self.detokenizers, parsers), f"{kind} {names.label}"


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
