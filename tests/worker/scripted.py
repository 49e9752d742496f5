"""A scripted engine, and a clock that passes only while everybody waits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from backedge.base.json_types import JsonObject
from backedge.parsers.base import ParserFactory
from backedge.parsers.passthrough import PassthroughParsers
from backedge.postprocess.chunk_scheduler import ChunkScheduler
from backedge.postprocess.fallback import Report
from backedge.postprocess.messages import KEY, ChoiceDelta, PostprocessedChunk, read
from backedge.postprocess.postprocessor import log_failure
from backedge.postprocess.settings import MERGE_DELAYS, MergeDelays, OnError, PostprocessSettings
from backedge.worker.backend import (
    InlineBackend,
    NewRequest,
    PostprocessBackend,
)
from backedge.worker.engine_request import EngineRequestHandle
from backedge.worker.request_stream import WorkerPostprocessor

from tests.support import encode, params, tiny_detokenizers

T = TypeVar("T")
TEXT = "one, two, three, four"
IDS = encode(TEXT)
SECOND = MergeDelays(content=1.0, tokens=1.0)
NEVER = MergeDelays(content=900.0, reasoning=900.0, tools=900.0, tokens=900.0)
LOWEST = MERGE_DELAYS["lowest"]
STALL = "stall"
DRAIN_S = 0.5
Step = (
    JsonObject | float | str | Exception
)  # an output, a pause in seconds, STALL, or what is raised


class VirtualLoop(asyncio.SelectorEventLoop):
    """Time passes only while there is nothing to do."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0
        self._select = self._selector.select  # type: ignore[attr-defined]  # asyncio's own
        self._selector.select = self._pass  # type: ignore[attr-defined]  # as above

    def time(self) -> float:
        return self.now

    def _pass(self, timeout: float | None) -> Any:
        assert timeout is not None, "everybody waits for ever"
        self.now += timeout
        return self._select(0)

    @property
    def timers(self) -> list[asyncio.TimerHandle]:
        """Those that will ring."""
        scheduled = self._scheduled  # type: ignore[attr-defined]  # as above
        return [timer for timer in scheduled if not timer.cancelled()]


def run_in_virtual_time(main: Coroutine[Any, Any, T]) -> T:
    """Run `main` and check that it leaves no task and no timer behind."""

    async def checked() -> T:
        result = await main
        for _ in range(5):
            await asyncio.sleep(0)
        loop = asyncio.get_running_loop()
        # The engine of a complete answer may take a moment to end.
        await asyncio.wait([*asyncio.all_tasks()], timeout=DRAIN_S)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert isinstance(loop, VirtualLoop)
        assert loop.timers == []
        return result

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(checked())


@dataclass
class Engine(EngineRequestHandle):
    """Generates what the script says, and notes what it is asked."""

    script: Sequence[Step]
    aborted: list[int] = field(default_factory=list)
    intervals: list[tuple[int, int]] = field(default_factory=list)
    started: bool = False
    closed: bool = False

    async def abort(self, index: int) -> None:
        await asyncio.sleep(0)  # as an engine in another process
        self.aborted.append(index)

    def set_stream_interval(self, index: int, tokens: int) -> None:
        self.intervals.append((index, tokens))

    async def outputs(self) -> AsyncIterator[JsonObject]:
        self.started = True
        try:
            for step in self.script:
                if isinstance(step, dict):
                    yield dict(step)
                elif isinstance(step, Exception):
                    raise step
                else:
                    await (asyncio.Event().wait() if step == STALL else asyncio.sleep(float(step)))
        finally:
            self.closed = True


class CountingBackend(InlineBackend):
    """Counts how often each of its streams was closed."""

    def __init__(
        self,
        delays: MergeDelays,
        parsers: ParserFactory | None = None,
        on_error: OnError = "degrade",
        report: Report = log_failure,
    ) -> None:
        settings = PostprocessSettings(delays=delays, on_error=on_error)
        super().__init__(tiny_detokenizers(), parsers or PassthroughParsers(), settings, report)
        self.closes: list[int] = []

    def start(self, new: NewRequest) -> ChunkScheduler:
        stream = super().start(new)
        number = len(self.closes)
        self.closes.append(0)

        def close() -> None:
            self.closes[number] += 1

        stream.close = close  # type: ignore[method-assign]  # to see it closed
        return stream


@dataclass
class Sent:
    """A chunk, when it came, and what its tokens mean."""

    at: float
    chunk: JsonObject

    @property
    def post(self) -> PostprocessedChunk:
        post = read(PostprocessedChunk, self.chunk["extra_args"][KEY])
        assert post is not None
        return post


async def answer(
    engine: Any,
    backend: PostprocessBackend,
    *,
    pause_s: float = 0.0,
    token_ids: Sequence[int] = (),
    **fields: Any,
) -> list[Sent]:
    """Return what a client gets that takes `pause_s` for each chunk; an error comes last."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    sent: list[Sent] = []
    try:
        async for chunk in WorkerPostprocessor(backend).stream(
            engine.outputs(), params(**fields), list(token_ids), engine
        ):
            sent.append(Sent(loop.time() - began, chunk))
            if pause_s:
                await asyncio.sleep(pause_s)
    except RuntimeError as error:
        sent.append(Sent(loop.time() - began, {"raised": error}))
    return sent


def output(
    text: str | list[int],
    index: int = 0,
    finish_reason: str | JsonObject | None = None,
    **fields: Any,
) -> JsonObject:
    token_ids = encode(text) if isinstance(text, str) else text
    return {"index": index, "token_ids": token_ids, "finish_reason": finish_reason, **fields}


def deltas(sent: Sequence[Sent], index: int = 0) -> list[ChoiceDelta]:
    return [delta for part in sent for delta in part.post.deltas if delta.index == index]


def content(part: Sent) -> str:
    return "".join(delta.delta.content or "" for delta in part.post.deltas)


def count_tokens(sent: Sequence[Sent], index: int = 0) -> list[int]:
    return [
        token_id
        for part in sent
        if part.chunk["index"] == index
        for token_id in part.chunk["token_ids"]
    ]


class BrokenParsers:
    name = "broken"
    breaks_before_calls: int | None = None

    def shows_special_tokens(self, request):
        return False

    def __call__(self, request, prompt_token_ids):
        return BrokenParser()


class BrokenParser:
    token_aligned, in_reasoning, reasoning_tokens, dropped_calls, held = True, False, 0, 0, None
    fed = 0

    def reads_together(self, token_ids):
        return len(token_ids) == 1

    def feed(self, text, token_ids=()):
        self.fed += 1
        if self.fed > 3:
            raise KeyError("boom")
        return []

    def finish(self, text="", token_ids=(), *, cut=False):
        return []
