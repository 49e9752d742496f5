"""Every core that `worker_cost` compares makes the same texts of an answer, so their costs are for the same work."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from benchmarks.answers import KINDS, answer
from benchmarks.core_systems import Core, DynamoCore, OurCore
from benchmarks.sglang_core import SglangCore
from benchmarks.worker_cost import differences


@pytest.fixture(scope="module", params=[OurCore, DynamoCore, SglangCore])
def core(request: pytest.FixtureRequest) -> Core:
    made: Callable[[], Core] = request.param
    return made()


@pytest.mark.parametrize("kind", KINDS)
def test_the_texts_are_the_answers(core: Core, kind: str) -> None:
    asked = answer(kind)
    stream = core(asked)
    *body, last = asked.token_ids
    for token_id in body:
        stream.feed(token_id, last=False)
    stream.feed(last, last=True)
    assert not differences(stream.texts(), asked.texts)
