"""The cache of prompts behind each edge: the same ids, and only what is new is tokenized."""

from __future__ import annotations

import argparse
import asyncio
import logging
from typing import Any

import pytest
from backedge.frontend.prompt_queue import PromptQueue
from backedge.tokenization.prompt_cache import PromptCache
from backedge.tokenization.tokenizer_selection import Backend

from tests.engines.frontends.all_edges import CHOICES, ENGINES, card, load, prepared

CACHED: list[Backend] = [backend for backend in CHOICES if backend != "python"]
QUESTION = "What do you think of this? It costs 1,234 \u20ac, e\u0301 and \u4e16\u754c. "


def conversation(turns: int) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = [{"role": "system", "content": "Be brief. " * 300}]
    for number in range(turns):
        messages.append({"role": "user", "content": QUESTION * 40 + str(number)})
        messages.append({"role": "assistant", "content": "I like it. " * 20})
    return messages[:-1]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("backend", CACHED)
def test_a_growing_conversation(
    flags: argparse.Namespace,
    loop: asyncio.AbstractEventLoop,
    backend: Backend,
    engine: str,
) -> None:
    cache = PromptCache()
    workers = card(engine, 50_000)
    queue = PromptQueue(threads=1)
    model = loop.run_until_complete(load(backend, flags, queue, workers, cache))
    plain = loop.run_until_complete(load(backend, flags, queue, workers))
    for turns in range(1, 6):
        fields = {"messages": conversation(turns), "max_tokens": 5}
        missed = cache.counts.missed_tokens
        found = prepared(loop, model, fields).preprocessed["token_ids"]
        assert found == prepared(loop, plain, fields).preprocessed["token_ids"]
        missed = cache.counts.missed_tokens - missed
        assert missed == len(found) if turns == 1 else missed < len(found) - 800 * (turns - 1)
    assert cache.counts.hits >= 10
    assert cache.size > 0


@pytest.mark.parametrize("backend", CHOICES)
def test_the_log_says_why_there_is_none(
    flags: argparse.Namespace,
    loop: asyncio.AbstractEventLoop,
    caplog: pytest.LogCaptureFixture,
    backend: Backend,
) -> None:
    cache = PromptCache()
    with caplog.at_level(logging.WARNING):
        loop.run_until_complete(load(backend, flags, PromptQueue(threads=1), card("vllm"), cache))
    lines = [record.getMessage() for record in caplog.records if "prompt cache" in record.message]
    expected = [] if backend in CACHED else ["model tiny: no prompt cache: Wrapped encodes texts "]
    assert [line[: len(expected[0])] for line in lines] == expected
