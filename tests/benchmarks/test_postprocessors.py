"""All systems that `worker_cost` compares give the same texts, so they do the same work."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from benchmarks.answers import KINDS, answer
from benchmarks.postprocessors import DynamoPostprocessor, OurPostprocessor, StartAnswer
from benchmarks.worker_cost import differences


@pytest.fixture(scope="module", params=[OurPostprocessor, DynamoPostprocessor])
def start_answer(request: pytest.FixtureRequest) -> StartAnswer:
    made: Callable[[], StartAnswer] = request.param
    return made()


@pytest.mark.parametrize("kind", KINDS)
def test_the_texts_are_the_answers(start_answer: StartAnswer, kind: str) -> None:
    asked = answer(kind)
    stream = start_answer(asked)
    *body, last = asked.token_ids
    for token_id in body:
        stream.feed(token_id, last=False)
    stream.feed(last, last=True)
    assert not differences(stream.texts(), asked.texts)
