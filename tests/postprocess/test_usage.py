"""Tokens added up over choices, by what the engine says and what a dead worker has sent."""

from types import SimpleNamespace
from typing import Any

import pytest
from backedge.postprocess.messages import Chunk, Usage
from backedge.postprocess.usage import UsageCounter

CHOICES: list[Any] = [
    SimpleNamespace(tokens=5, reasoning_tokens=2),
    SimpleNamespace(tokens=3, reasoning_tokens=0),
]


@pytest.mark.parametrize(
    ("resumed", "chunks", "usage"),
    [
        (0, [], Usage(10, 8, 2, None)),
        (0, [{"prompt_tokens": 12}], Usage(12, 8, 2, None)),
        (4, [{"prompt_tokens": 14, "cached_tokens": 8}], Usage(10, 8, 2, 8)),
        (0, [{"cached_tokens": 0}, {}], Usage(10, 8, 2, 0)),
        (0, [{"prompt_tokens": 12}, {"prompt_tokens": 13}], Usage(13, 8, 2, None)),
    ],
)
def test_total(resumed, chunks, usage):
    counter = UsageCounter(10)
    counter.resume(resumed)
    for fields in chunks:
        counter.read(Chunk(**fields))
    assert counter.total(CHOICES) == usage
