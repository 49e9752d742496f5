"""Every edge gives the same answer to a bad request: a 400 that names the field."""

from __future__ import annotations

import asyncio
import json

import pytest
from backedge.base.limits import MAX_SHOWN_TEXT
from backedge.frontend.chat_model import ChatModel
from backedge.tokenization.tokenizer_selection import Backend
from dynamo.llm.exceptions import InvalidArgument

from tests.engines.frontends.all_edges import CHOICES, prepared
from tests.engines.frontends.bad_requests import BAD, USER, Bad

Models = dict[tuple[str, Backend], ChatModel]


@pytest.mark.parametrize("bad", BAD, ids=lambda bad: bad.id)
@pytest.mark.parametrize("backend", CHOICES)
def test_it_is_a_400_with_the_field(
    models: Models, loop: asyncio.AbstractEventLoop, backend: Backend, bad: Bad
) -> None:
    with pytest.raises(InvalidArgument) as caught:
        prepared(loop, models["vllm", backend], {"messages": [USER], **bad.fields})
    message = str(caught.value)
    assert f"`{bad.field}` " in message
    assert len(message.encode()) <= MAX_SHOWN_TEXT
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__, "Dynamo would log what is behind it"


def test_there_are_many() -> None:
    assert len(BAD) >= 250
    rows = [json.dumps(bad, default=str) for bad in BAD]
    assert len(set(rows)) == len(rows)
