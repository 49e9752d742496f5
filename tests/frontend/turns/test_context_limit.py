"""Near the model's context length, no request is refused for what is restored in it."""

from __future__ import annotations

import functools
from typing import Any

import pytest
from backedge.base.errors import RequestError
from backedge.base.json_types import JsonObject
from backedge.engines.transformers.frontend import HuggingFacePrompts
from backedge.frontend.request.chat_request import ChatRequest
from backedge.frontend.request.preprocessed_request import Prompt
from backedge.frontend.turns.flags import TurnMode, TurnSettings

from tests.frontend.turns.conversations import (
    CALLING,
    QUESTION,
    THOUGHT,
    Agent,
    cut_freely,
    drop_reasoning,
    result_of,
)


@functools.cache
def ask_twice(mode: TurnMode, context_length: int, max_tokens: int | None) -> JsonObject | None:
    """Return the second request as the engine gets it; None if it is refused.

    The first answer has more tokens than the tokenizer makes of its text.
    """
    agent = Agent(TurnSettings(mode), context_length=context_length)
    answer = agent.ask([QUESTION], cut_freely(CALLING), max_tokens=1)
    fields: dict[str, Any] = {} if max_tokens is None else {"max_tokens": max_tokens}
    agent.ask([QUESTION, drop_reasoning(answer), result_of(answer)], "Three.", **fields)
    return agent.engine.requests[1] if len(agent.engine.requests) > 1 else None


def length_of(mode: TurnMode) -> int:
    request = ask_twice(mode, 1000, None)
    assert request is not None
    return len(request["token_ids"])


@pytest.mark.parametrize("max_tokens", [None, 1, 7])
@pytest.mark.parametrize("mode", ["reasoning", "exact"])
def test_a_request_that_fits_is_never_refused_for_its_turns(
    mode: TurnMode, max_tokens: int | None
) -> None:
    shortest, longest = length_of("off"), length_of(mode)
    room = max_tokens or 1
    prompts = set()
    for context_length in range(shortest, longest + room + 2):
        own = ask_twice("off", context_length, max_tokens)
        request = ask_twice(mode, context_length, max_tokens)
        assert (request is None) is (own is None)
        if request is None or own is None:
            continue
        length, limit = len(request["token_ids"]), request["stop_conditions"]["max_tokens"]
        prompts.add(length)
        assert limit == (max_tokens or context_length - length)
        assert limit >= 1
        is_cut = len(own["token_ids"]) + room > context_length
        assert length + (1 if is_cut else room) <= context_length
        assert length == longest or longest + room > context_length
    assert {shortest, longest} <= prompts


def test_a_template_that_rejects_reasoning_gets_the_clients_messages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    render = HuggingFacePrompts.__call__

    def reject(self: HuggingFacePrompts, request: ChatRequest) -> Prompt:
        if any(message.reasoning_content for message in request.messages):
            raise RequestError("messages", "has reasoning")
        return render(self, request)

    monkeypatch.setattr(HuggingFacePrompts, "__call__", reject)
    agent = Agent(TurnSettings("exact"))
    answer = agent.ask([QUESTION], CALLING)
    agent.ask([QUESTION, drop_reasoning(answer), result_of(answer)], "Three.")
    assert len(agent.engine.requests) == 2
    assert THOUGHT not in agent.prompt_text
    assert (agent.counts.restored, agent.counts.missed["refused"]) == (0, 1)
