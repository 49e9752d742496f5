"""Which prompts are short, and when they are made in the event loop."""

from __future__ import annotations

from typing import Any

import pytest
from backedge.base.limits import MAX_MEAN_MS, MAX_SHORT_CHARACTERS, MAX_SHORT_MESSAGES, MAX_SHORT_MS
from backedge.frontend.prompt_preprocessor import TRUSTED_AFTER, ShortPrompts, is_short
from backedge.frontend.request.chat_request import decode_chat_request

QUICK, BUSY, SLOW = MAX_MEAN_MS / 2000, MAX_SHORT_MS / 1000, 1.5 * MAX_SHORT_MS / 1000
TOOL = {"type": "function", "function": {"name": "f"}}


def says(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


@pytest.mark.parametrize(
    ("fields", "short"),
    [
        ({}, True),
        ({"messages": [says("x" * MAX_SHORT_CHARACTERS)]}, True),
        ({"messages": [says("x" * MAX_SHORT_CHARACTERS), says("x")]}, False),
        ({"messages": [says("")] * MAX_SHORT_MESSAGES}, True),
        ({"messages": [says("")] * (MAX_SHORT_MESSAGES + 1)}, False),
        ({"tools": [TOOL]}, False),
        ({"response_format": {"type": "json_object"}}, False),
        ({"guided_json": {}}, False),
    ],
)
def test_what_is_short(fields: dict[str, Any], *, short: bool) -> None:
    request = decode_chat_request({"model": "tiny", "messages": [says("hi")], **fields})
    assert is_short(request) == short


def test_a_model_is_trusted_after_many_quick_ones_and_not_after_a_slow_one() -> None:
    prompts = ShortPrompts()
    for _ in range(2):
        for _ in range(TRUSTED_AFTER):
            assert not prompts.trusted
            prompts.note(QUICK)
        assert prompts.trusted
        prompts.note(SLOW)


def test_one_that_takes_longer_now_and_then_is_no_reason_and_many_are() -> None:
    prompts = ShortPrompts()
    for _ in range(TRUSTED_AFTER):
        prompts.note(QUICK)
    prompts.note(BUSY)
    assert prompts.trusted
    for _ in range(8):
        prompts.note(BUSY)
    assert not prompts.trusted
    for _ in range(TRUSTED_AFTER):
        prompts.note(QUICK)
    assert prompts.trusted
