"""Requests with media go to the engine's own back end, which is built with the first of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from backedge.base import limits
from backedge.base.errors import SetupError
from backedge.frontend.media_requests import MediaPreprocessor
from backedge.frontend.request.chat_request import decode_chat_request

IMAGE = {"type": "image_url", "image_url": {"url": "http://127.0.0.1/x.png"}}
TEXT = {"type": "text", "text": "hi"}


def preprocessor(name: str) -> Any:
    @asynccontextmanager
    async def prepare(_: object, __: object = None) -> AsyncIterator[str]:
        yield name

    return prepare


class Builder:
    """Counts how often it is loaded. error: raised when it builds."""

    def __init__(self, error: Exception | None = None) -> None:
        self.loaded, self.error = 0, error

    async def __call__(self) -> Any:
        self.loaded += 1
        await asyncio.sleep(0)
        return self

    async def build(self) -> Any:
        if self.error is not None:
            raise self.error
        return SimpleNamespace(preprocess=preprocessor("media"))


async def ask(prepare: MediaPreprocessor, content: object) -> object:
    request = {"model": "tiny", "messages": [{"role": "user", "content": content}]}
    async with prepare(decode_chat_request(request)) as prepared:
        return prepared


def test_media_alone_need_the_engine() -> None:
    builder = Builder()

    async def run() -> list[object]:
        prepare = MediaPreprocessor(preprocessor("text"), builder)
        text = [await ask(prepare, content) for content in ("hi", [TEXT])]
        assert builder.loaded == 0
        return [*text, *await asyncio.gather(*(ask(prepare, [TEXT, IMAGE]) for _ in range(3)))]

    assert asyncio.run(run()) == ["text", "text", "media", "media", "media"]
    assert builder.loaded == 1


@pytest.mark.parametrize("error", [SetupError("no such version."), ValueError("no processor")])
def test_an_engine_that_cannot_be_built_costs_requests_with_media_alone(error: Exception) -> None:
    builder = Builder(error)

    async def run() -> object:
        prepare = MediaPreprocessor(preprocessor("text"), builder)
        for _ in range(2):
            with pytest.raises(SetupError, match=r"no such version|no processor"):
                await ask(prepare, [IMAGE])
        return await ask(prepare, "hi")

    assert asyncio.run(run()) == "text"
    assert builder.loaded == 1


def test_an_engine_that_could_not_be_built_is_tried_again_after_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "MEDIA_RETRY_S", 0.05)
    builder = Builder(OSError("a file was not there yet"))

    async def run() -> object:
        prepare = MediaPreprocessor(preprocessor("text"), builder)
        for _ in range(2):
            with pytest.raises(SetupError, match="not there yet"):
                await ask(prepare, [IMAGE])
        builder.error = None
        await asyncio.sleep(0.06)
        return [await ask(prepare, [IMAGE]) for _ in range(2)]

    assert asyncio.run(run()) == ["media", "media"]
    assert builder.loaded == 2


def test_a_client_that_leaves_does_not_end_the_building() -> None:
    builder = Builder()

    async def run() -> object:
        prepare = MediaPreprocessor(preprocessor("text"), builder)
        first = asyncio.ensure_future(ask(prepare, [IMAGE]))
        await asyncio.sleep(0)
        first.cancel()
        return await ask(prepare, [IMAGE])

    assert asyncio.run(run()) == "media"
    assert builder.loaded == 1
