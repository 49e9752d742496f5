"""The soak's model that slips: its malformed calls are generated again, or its client leaves."""

from __future__ import annotations

import json
import random
from typing import Any

import openai

from tests.e2e.client import Answer, add_delta, whole
from tests.e2e.slipping.scripts import FIRST_SEED, OUTPUTS
from tests.e2e.test_regenerate_loss import ALWAYS, PARAMETERS, QUESTION, SHORTEST

LEAVING_SHARE = 0.2
LONGEST_READ = 12


async def find_fault(client: openai.AsyncOpenAI, model: str, choose: random.Random) -> str:
    """Ask for a call; return what is wrong with it. Raises the client's errors."""
    seed = FIRST_SEED + OUTPUTS.index(choose.choice(ALWAYS))
    request: dict[str, Any] = {"model": model, "seed": seed, **QUESTION}
    completions = client.chat.completions
    if choose.random() < LEAVING_SHARE:
        async with await completions.create(**request, stream=True) as stream:
            left = choose.randint(0, LONGEST_READ)
            async for _ in stream:
                if not left:
                    return ""
                left -= 1
        return ""
    if choose.random() < 1 / 2:
        return judge(whole(await completions.create(**request)).answer)
    answer = Answer()
    async with await completions.create(**request, stream=True) as stream:
        async for chunk in stream:
            for choice in chunk.choices:
                add_delta(answer, choice.delta)
                answer.finish_reason = choice.finish_reason or answer.finish_reason
    return judge(answer)


def judge(answer: Answer) -> str:
    """Return what is wrong with an answer, which is one call."""
    try:
        [call] = answer.message["tool_calls"]
        arguments = json.loads(call["arguments"])
        is_right = (
            call["name"] == "get_weather"
            and len(arguments["city"]) >= SHORTEST
            and arguments.keys() <= PARAMETERS["properties"].keys()
            and answer.finish_reason == "tool_calls"
        )
    except (ValueError, TypeError, KeyError):
        is_right = False
    return "" if is_right else f"not one right call: {answer.message}"
