"""Inspections of recordings, for the tests of what is made of them."""

from __future__ import annotations

import functools

from backedge.cli.inspect.inspection import Inspection, inspect_recording
from backedge.cli.inspect.summary import Chosen, summarize
from backedge.cli.inspect.trace import ChoiceTrace, trace
from backedge.parsers.base import ParserNames
from backedge.recording.recording import Recording
from backedge.recording.rerun import Parts

from tests.support import NAMES, tiny_detokenizers, tiny_parsers

# Beside the recorded parsers: one that knows no calls of this form.
OTHER = ParserNames("qwen3_coder", "qwen3")


@functools.cache
def parts(names: ParserNames = NAMES) -> Parts:
    parsers = tiny_parsers(names)
    return Parts(tiny_detokenizers(), parsers, "linear")


def trace_recording(recording: Recording, names: ParserNames = NAMES) -> list[ChoiceTrace]:
    return trace(recording, parts(names))


def inspect_it(recording: Recording, *names: ParserNames) -> Inspection:
    """Inspect a recording by the recorded parsers, and others beside them."""
    sides = [parts(each) for each in (NAMES, *names)]
    return inspect_recording(Chosen(summarize(1, recording), recording), sides)
