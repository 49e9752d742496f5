"""A chat template that turns slow costs its own requests only."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest
from backedge.frontend.prompt_preprocessor import TRUSTED_AFTER, ShortPrompts
from backedge.frontend.prompt_queue import BusyError, PromptQueue
from backedge.frontend.request.chat_request import ChatRequest, decode_chat_request
from backedge.templates import rendering
from backedge.templates.chat_template import DEFAULT, ChatTemplate, compile_template

LOOPS = "{% for a in range(99999) %}{% for b in range(200) %}{% endfor %}{% endfor %}"
SLOW = "{% if messages | length == 3 %}" + LOOPS + "{% endif %}{{ messages | length }}"
# So many tokens of another stream show that it went on; without a process there are none.
TOKENS = 100


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    yield
    compile_template.cache_clear()


def request(turns: int) -> ChatRequest:
    messages = [{"role": "user", "content": "hi"}] * turns
    return decode_chat_request({"model": "tiny", "messages": messages})


def prompt_maker() -> Callable[[ChatRequest], str]:
    template = ChatTemplate({DEFAULT: SLOW}, {})
    return lambda request: template.render(request.raw["messages"])


class Stream:
    """Another stream of the frontend, which has a token in each turn of the event loop."""

    def __init__(self) -> None:
        self.tokens = 0

    async def run(self) -> None:
        while True:
            self.tokens += 1
            await asyncio.sleep(0.001)


def test_streams_go_on_while_a_trusted_template_turns_slow() -> None:
    async def run() -> tuple[str, int]:
        make_prompt, prompts, queue, stream = (
            prompt_maker(),
            ShortPrompts(),
            PromptQueue(threads=1),
            Stream(),
        )
        for _ in range(TRUSTED_AFTER):
            assert await prompts.make(make_prompt, request(1), queue, None) == "1"
        assert prompts.trusted
        running = asyncio.create_task(stream.run())
        await asyncio.sleep(0)
        before = stream.tokens
        made = await prompts.make(make_prompt, request(3), queue, None)
        assert not prompts.trusted
        running.cancel()
        return made, stream.tokens - before

    made, tokens = asyncio.run(run())
    assert made == "3"
    assert tokens >= TOKENS


def test_other_prompts_are_made_while_a_slow_one_is() -> None:
    async def run() -> None:
        make_prompt, queue = prompt_maker(), PromptQueue(threads=1)
        slow = [asyncio.create_task(queue.run(make_prompt, request(3))) for _ in range(3)]
        await asyncio.sleep(0)
        assert await queue.run(make_prompt, request(1)) == "1"
        assert not all(task.done() for task in slow)
        for _ in range(4):
            assert await queue.run(make_prompt, request(1)) == "1"
        assert await asyncio.gather(*slow) == ["3", "3", "3"]

    asyncio.run(run())


def test_too_many_that_wait_for_a_slow_template_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rendering, "MAX_WAITING_RENDERS", 1)

    async def run() -> None:
        make_prompt, queue = prompt_maker(), PromptQueue(threads=1)
        slow = [asyncio.create_task(queue.run(make_prompt, request(3))) for _ in range(3)]
        results = await asyncio.gather(*slow, return_exceptions=True)
        assert results.count("3") == 1
        assert sum(isinstance(result, BusyError) for result in results) == 2
        assert await queue.run(make_prompt, request(1)) == "1"

    asyncio.run(run())
