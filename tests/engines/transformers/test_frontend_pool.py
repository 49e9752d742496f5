"""A described model's plain workers: a frontend's pool post-processes their streams."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path
from typing import Any

import pytest
from backedge.base.errors import SetupError
from backedge.frontend.metrics import LocalParsing
from backedge.frontend.response.worker_stream import StreamReader, WorkerError
from backedge.parsers.base import ParserNames, ParserRequest
from backedge.parsers.response_template import name_description
from backedge.postprocess.delta_builder import aggregate_deltas
from backedge.postprocess.messages import KEY
from backedge.postprocess.messages import encode as encode_message
from typing_extensions import override

from tests.frontend.doubles import Annotated, Context, Engine
from tests.parsers.made_up import ENDLESS_NAME, TALK, TOOL, write_model
from tests.support import encode, params
from tests.worker.pool.pools import fork_server_pid

frontend_pool = pytest.importorskip("backedge.engines.transformers.frontend_pool")


def outputs(text: str, index: int = 0, *, ends: bool = True) -> list[Any]:
    ids = encode(text + "<|im_end|>")
    chunks: list[Any] = [
        {"index": index, "token_ids": [token_id], "finish_reason": None} for token_id in ids
    ]
    if ends:
        chunks[-1]["finish_reason"] = "stop"
    return [Annotated(chunk) for chunk in chunks]


class StoppedContext(Context):
    """A request that is going to be stopped. ended: set then."""

    def __init__(self) -> None:
        self.ended = asyncio.Event()

    @override
    def stop_generating(self) -> None:
        super().stop_generating()
        self.ended.set()


class Endless(Engine):
    """Generates until it is stopped."""

    @override
    async def generate(self, request: Any, *, context: Any) -> Any:
        items = await super().generate(request, context=context)

        async def generate() -> Any:
            async for item in items:
                yield item
            await context.ended.wait()

        return generate()


async def read(engine: Any, context: Context, **fields: Any) -> list[Any]:
    """Return each choice as one delta."""
    request = ParserRequest(tools=[TOOL], tool_choice="auto")
    asked = params(parser=request, prompt_length=1, **fields)
    preprocessed = {"token_ids": encode("hi")[:1], "extra_args": {KEY: encode_message(asked)}}
    reader = StreamReader(asked, lambda: pytest.fail("the frontend post-processes"))
    found = [processed async for _, processed in reader.read(engine, preprocessed, context)]
    deltas = [delta for processed in found for delta in processed.deltas]
    choices = [[one for one in deltas if one.index == index] for index in range(asked.n)]
    return [aggregate_deltas(choice).delta for choice in choices]


async def serve(folder: Path) -> None:
    parsing = LocalParsing()
    wrap = await frontend_pool.start_pool(
        ParserNames(ENDLESS_NAME, ENDLESS_NAME), str(folder), None, parsing, trust_remote_code=False
    )
    assert len(parsing.pools) == 1
    assert fork_server_pid()
    [delta] = await read(wrap(Engine(outputs(TALK))), Context())
    assert (delta.reasoning_content, delta.content) == ("Which zone?", "A moment, please.")

    stopped = StoppedContext()
    endless = Endless([*outputs(TALK, ends=False), *outputs("<|say|>Yes", 1)])
    first, second = await read(wrap(endless), stopped, stop=["please"], n=2)
    assert (first.content, second.content) == ("A moment,", "Yes")
    assert stopped.is_stopped()

    for broken in (
        outputs(TALK, ends=False),
        [*outputs("<|say|>A", ends=False), Annotated(None, "x")],
    ):
        with pytest.raises(WorkerError):
            await read(wrap(Engine(broken)), Context())

    del wrap
    gc.collect()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not fork_server_pid()
    assert not parsing.pools


def test_a_plain_workers_stream_is_post_processed_in_the_pool(tmp_path: Path) -> None:
    asyncio.run(serve(write_model(tmp_path / "model")))


def test_processes_that_do_not_start_are_refused(tmp_path: Path) -> None:
    name = name_description({"fields": {"thinking": {"open_pattern": "(", "close": "x"}}})
    start = frontend_pool.start_pool(
        ParserNames(None, name), str(tmp_path), None, LocalParsing(), trust_remote_code=False
    )
    with pytest.raises(SetupError, match="the log has the reason"):
        asyncio.run(start)
