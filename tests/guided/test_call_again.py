"""What stays in front of a call that is generated again."""

from __future__ import annotations

import pytest
from backedge.guided.call_again import count_kept
from backedge.parsers.structural_tag import find_calls

from benchmarks.samples.tokenizers import encode
from tests.parsers.families.family import Family
from tests.slips.regeneration import Model
from tests.slips.slips import PAIRS, TOOLS
from tests.slips.systems import WRITERS

# Each call is a message, whose header begins with a token.
MESSAGES = [family for family in WRITERS if family.name in ("beam", "muse_glimmer", "openai")]


@pytest.mark.parametrize("slip", ["", "=", "to"])
@pytest.mark.parametrize("family", MESSAGES, ids=lambda family: family.name)
def test_the_header_of_a_message_stays(family: Family, slip: str) -> None:
    """slip: a part of the call's marker that is left out of the second one."""
    model = Model(family, tuple(TOOLS))
    assert family.write is not None
    assert model.format is not None
    first, second = (family.write("", calls) for calls in (PAIRS[0][:1], PAIRS[0]))
    rest = second.removeprefix(first[: len(first) - len("<|call|>")])
    begin = rest.index("<|start|>")
    header = "<|start|>assistant"
    discarded = header + rest[begin + len(header) :].replace(slip, "", bool(slip))
    tokens = encode(model.tokenizer, discarded)
    kept, lead = count_kept(model.format, tokens, model.read)
    assert (model.read(tokens[:kept]), lead) == (header, "")


def test_calls_without_a_header_begin_at_once() -> None:
    for family in WRITERS:
        model = Model(family, tuple(TOOLS))
        assert family.write is not None
        assert model.format is not None
        if family not in MESSAGES:
            text = family.write("", PAIRS[0])
            assert not text[: find_calls(model.format, text)].strip()
