"""Cut behind any token, a case shows a beginning of what it shows when it is whole."""

from __future__ import annotations

import re

import pytest
from backedge.parsers.events import Event
from backedge.parsers.forced_calls import wrap_forced_calls

from tests.conformance.cases import Case, load_cases
from tests.conformance.runner import (
    build_parsers,
    build_request,
    encode_prompt,
    read_prompt,
    tokenize,
)
from tests.pairwise import WHOLE
from tests.parsers.driver import run
from tests.parsers.event_outcome import read_shown

NATIVE = [case for case in load_cases() if case.mode == "Native"]
if not NATIVE:
    pytest.skip("there are no cases beside the checkout", allow_module_level=True)

# One case in so many; all with WHOLE_MATRICES.
STEP = 1 if WHOLE else 4


def split(case: Case) -> list[tuple[str, int]]:
    """Return the case's tokens: markers, words and single characters."""
    return [
        (piece, token)
        for text, token in tokenize(case.names, [case.output])
        for piece in ([text] if token else re.findall(r"\w+|\W", text))
    ]


def feed(case: Case, tokens: list[tuple[str, int]], *, cut: bool) -> list[Event]:
    request, prompt = build_request(case), read_prompt(case)
    parsers = build_parsers(case.names, prompt)
    parser = wrap_forced_calls(parsers(request, encode_prompt(case.names, prompt)), request)
    return run(parser, tokens, cut=cut)


def test_every_token() -> None:
    faults: list[str] = []
    for case in NATIVE[::STEP]:
        tokens = split(case)
        whole = read_shown(feed(case, tokens, cut=case.finish == "length"))
        faults += [
            f"{case.id} behind token {end}"
            for end in range(len(tokens))
            if not read_shown(feed(case, tokens[:end], cut=True)).begins(whole)
        ]
    assert faults == []
