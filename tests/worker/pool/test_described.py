"""transformers' parser of a checkpoint's description in a real pool: an expression may not end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from backedge.parsers.base import ParserFactory, ParserNames, ParserRequest
from backedge.postprocess.messages import ChoiceDelta
from backedge.tokenization.detokenizer import DetokenizerFactory

from tests.parsers.made_up import ENDLESS_NAME, STUCK, TALK, TOOL
from tests.support import tiny_detokenizers, tiny_tokenizer
from tests.worker.pool.pools import in_pool, stream

pytest.importorskip("transformers")


def build(name: str) -> tuple[DetokenizerFactory, ParserFactory]:
    """Return the parsers of a description; runs in the fork server."""
    from backedge.engines.transformers.parsers import DescribedParsers

    return tiny_detokenizers(), DescribedParsers(tiny_tokenizer(), ParserNames(name, name))


def answer(pool: Any, text: str, pause_s: float = 0.0) -> Any:
    request = ParserRequest(tools=[TOOL], tool_choice="auto")
    return stream(pool, text, pause_s, parser=request)


@pytest.mark.parametrize("on_error", ["degrade", "fail"])
def test_an_expression_that_does_not_end_costs_its_own_request_only(on_error: str) -> None:
    async def test(pool: Any) -> tuple[list[Any], Any]:
        others = [answer(pool, TALK, 0.02) for _ in range(3)]
        found = await asyncio.gather(answer(pool, STUCK), *others, return_exceptions=True)
        return found, pool.stats

    (found, stats), failures = in_pool(
        test, deadline_s=3.0, on_error=on_error, build=f"{__name__}:build", name=ENDLESS_NAME
    )
    stuck, *others = found
    for other in others:
        assert isinstance(other, ChoiceDelta)
        assert (other.delta.reasoning_content, other.delta.content) == (
            "Which zone?",
            "A moment, please.",
        )
    assert stats.kills == 1
    [failure] = failures
    assert failure.reason == "a step took longer than the deadline of 3 s"
    if on_error == "degrade":
        # The text since the parser's last event, with its marks.
        assert stuck.delta.content.startswith("I ask.")
        assert stuck.delta.content.endswith(STUCK.removeprefix("<|say|>I ask.<|hush|>"))
        assert stuck.delta.tool_calls == []
    else:
        assert "longer than the deadline" in str(stuck)
