"""A model of each tokenizer back end, without workers."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Iterator

import pytest
from backedge.frontend.chat_model import ChatModel
from backedge.frontend.prompt_queue import PromptQueue
from backedge.tokenization.tokenizer_selection import Backend
from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.entrypoints.launchers.cli_args import FrontendArgs
from vllm.utils.argparse_utils import FlexibleArgumentParser

from tests.engines.frontends.all_edges import CHOICES, ENGINES, card, load


@pytest.fixture(scope="session")
def flags() -> argparse.Namespace:
    parser = AsyncEngineArgs.add_cli_args(
        FrontendArgs.add_cli_args(FlexibleArgumentParser(add_help=False))
    )
    parsed: argparse.Namespace = parser.parse_args([])
    return parsed


@pytest.fixture(scope="session")
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    made = asyncio.new_event_loop()
    yield made
    made.close()


@pytest.fixture(scope="session")
def models(
    flags: argparse.Namespace, loop: asyncio.AbstractEventLoop
) -> dict[tuple[str, Backend], ChatModel]:
    """Return a model for each engine and back end."""
    prompt_queue = PromptQueue(threads=1)

    async def build() -> dict[tuple[str, Backend], ChatModel]:
        return {
            (engine, backend): await load(backend, flags, prompt_queue, card(engine))
            for engine in ENGINES
            for backend in CHOICES
        }

    return loop.run_until_complete(build())
