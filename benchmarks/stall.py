"""The delay of deltas: by kind of text, and while another stream has a slow parser.

    python -m benchmarks.stall [--json] [--seconds 60] [--streams 32]

Streams of content go through a worker's post-processing in real time, first alone, then
while one more stream feeds vLLM's parser for Qwen 3 Coder a call of 17,000 tokens, each
of which costs more than the one before. An engine in another process continues whatever
the event loop does, so a delta's delay counts from the time at which its first token was
due to be generated: the sum of merging, waiting and work. For comparison the same
streams run through Backedge's linear parser, and through Dynamo's Python chat processor,
which does everything in one event loop. Before this, the benchmark measures the delays
of each kind of text, in streams of 100 tokens per second.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import msgspec
import uvloop
from backedge.base.gc_freeze import freeze_loaded
from backedge.base.json_types import JsonObject
from backedge.engines.vllm.worker import build_parsers
from backedge.parsers.base import ParserNames
from backedge.parsers.parser_lookup import Kind
from backedge.postprocess.messages import KEY, PostprocessedChunk, read
from backedge.postprocess.settings import PostprocessSettings
from backedge.tokenization.detokenizer import detokenizers
from backedge.worker.backend import InlineBackend, PostprocessBackend
from backedge.worker.engine_request import EngineRequestHandle
from backedge.worker.pool import PoolSettings, PoolSupervisor
from backedge.worker.request_stream import WorkerPostprocessor
from typing_extensions import override
from vllm.tokenizers import get_tokenizer

from .answers import KINDS, TINY_MODEL, Answer, Texts, answer, tokenizer
from .postprocessors import REASONING_PARSER, DynamoPostprocessor, build_params
from .report import build_parser, show

MS_PER_S = 1e3
PARSER = "qwen3_coder"
CALL_TOKENS = 17_000
STREAM_PACE = 50.0  # tokens per second of a stream of content
BY_KIND_STREAMS, BY_KIND_PACE, BY_KIND_TOKENS = 21, 100.0, 1000  # of each kind
SETTINGS = PostprocessSettings()
TOOL = {
    "type": "function",
    "function": {
        "name": "save",
        "parameters": {
            "type": "object",
            "properties": {"text": {"type": "string"}},
            "required": ["text"],
        },
    },
}


class Row(msgspec.Struct):
    """The delays of one system's deltas, in milliseconds.

    call: how far the long call was when the other streams had ended.
    """

    system: str
    first_p50: float
    p50: float
    p99: float
    worst: float
    call: str = ""


class Generation(EngineRequestHandle):
    """One stream of an engine that keeps its pace whatever happens in this process."""

    def __init__(self, asked: Answer, pace: float, start: float) -> None:
        self.asked = asked
        self.pace = pace
        self._start = start
        self.sent = 0

    def generated_at(self, position: int) -> float:
        """Return when the token at `position` was generated, in the event loop's time."""
        return self._start + position / self.pace

    @override
    async def abort(self, index: int) -> None:
        pass  # never needed: every answer is generated to its end

    @override
    def set_stream_interval(self, index: int, tokens: int) -> None:
        pass  # tokens are not collected here, so that all delay is the worker's

    async def outputs(self) -> AsyncIterator[JsonObject]:
        """Yield the tokens generated since the last output, as vLLM's output collector does."""
        token_ids = self.asked.token_ids
        loop = asyncio.get_running_loop()
        while self.sent < len(token_ids):
            await asyncio.sleep(max(0.0, self.generated_at(self.sent) - loop.time()))
            done = min(
                len(token_ids), max(self.sent + 1, int((loop.time() - self._start) * self.pace) + 1)
            )
            output: JsonObject = {"index": 0, "token_ids": token_ids[self.sent : done]}
            if done == len(token_ids):
                output["finish_reason"] = "stop"
            self.sent = done
            yield output


class Delays:
    """The delays of many streams' deltas, in seconds."""

    def __init__(self) -> None:
        self.first: list[float] = []
        self.all: list[float] = []

    def row(self, system: str, call: str = "") -> Row:
        """Return their percentiles."""
        ordered = sorted(self.all)
        figures = (
            statistics.median(self.first),
            statistics.median(ordered),
            ordered[int(len(ordered) * 0.99)],
            ordered[-1],
        )
        first_p50, p50, p99, worst = (figure * MS_PER_S for figure in figures)
        return Row(system, first_p50, p50, p99, worst, call)


async def run_in_worker(
    backend: PostprocessBackend, generation: Generation, delays: Delays | None
) -> None:
    """Send a stream through a worker's post-processing; add its delays to `delays`, if given."""
    loop = asyncio.get_running_loop()
    taken = 0
    stream = WorkerPostprocessor(backend).stream(
        generation.outputs(), build_params(generation.asked), [], generation
    )
    async for chunk in stream:
        now = loop.time()
        post = read(PostprocessedChunk, chunk["extra_args"][KEY])
        if delays is not None and post is not None and post.deltas:
            count = len(chunk["token_ids"])
            delays.all.append(now - generation.generated_at(taken))
            if not taken:
                # The tokens before were a marker or a name, which make no delta.
                delays.first.append(now - generation.generated_at(count - 1))
        taken += len(chunk["token_ids"])


async def run_in_dynamo(
    postprocessor: DynamoPostprocessor, generation: Generation, delays: Delays | None
) -> None:
    """Send a stream through the post-processing of Dynamo's Python frontend."""
    loop = asyncio.get_running_loop()
    stream = postprocessor(generation.asked)
    position = 0
    async for output in generation.outputs():
        for token_id in output["token_ids"]:
            stream.feed(token_id, last=position == len(generation.asked.token_ids) - 1)
            if delays is not None:
                delay = loop.time() - generation.generated_at(position)
                delays.all.append(delay)
                if not position:
                    delays.first.append(delay)
            position += 1


Send = Callable[[Generation, Delays | None], Coroutine[None, None, None]]


async def run_streams(
    send: Send, streams: int, seconds: float, *, with_call: bool
) -> tuple[Delays, str]:
    """Send the streams of content, with or without the long call.

    Returns the delays of the content, and how far the call was at its end.
    """
    start = asyncio.get_running_loop().time() + 0.1
    content = answer("content", int(STREAM_PACE * seconds))
    delays = Delays()
    # An engine's streams begin at different times, so these do as well.
    offsets = [number / streams / STREAM_PACE for number in range(streams)]
    tasks = [
        asyncio.ensure_future(send(Generation(content, STREAM_PACE, start + offset), delays))
        for offset in offsets
    ]
    lasts_s = len(content.token_ids) / STREAM_PACE
    call = Generation(long_call(), CALL_TOKENS / lasts_s, start)
    call_task = asyncio.ensure_future(send(call, None)) if with_call else None
    await asyncio.gather(*tasks)
    if call_task is None:
        return delays, ""
    done = "all" if call_task.done() else f"{call.sent} of {len(call.asked.token_ids)}"
    call_task.cancel()
    await asyncio.wait([call_task])
    return delays, f"{done} tokens"


def long_call() -> Answer:
    """Return an answer with one call of `CALL_TOKENS` tokens, in the syntax of Qwen 3 Coder."""
    encoder = tokenizer()
    words = "one two, three four\n"
    text = words * (CALL_TOKENS // len(encoder.encode(words).ids))
    call = (
        f"<tool_call>\n<function=save>\n<parameter=text>\n{text}</parameter>\n"
        "</function>\n</tool_call><|im_end|>"
    )
    return Answer(
        kind="tools",
        request={
            "messages": [{"role": "user", "content": "Save it."}],
            "tools": [TOOL],
            "chat_template_kwargs": {"enable_thinking": False},
        },
        question="Save it.",
        token_ids=encoder.encode(call, add_special_tokens=False).ids,
        texts=Texts(arguments=json.dumps({"text": text})),
    )


def inline(kind: Kind, parser: str = PARSER) -> InlineBackend:
    """Return the backend of a worker without a pool."""
    vllm_tokenizer = get_tokenizer(str(TINY_MODEL))
    parsers = build_parsers(kind, ParserNames(parser, REASONING_PARSER), vllm_tokenizer)
    return InlineBackend(detokenizers(vllm_tokenizer), parsers, SETTINGS)


def pool_parts() -> tuple[Any, Any]:
    """Return the detokenizers and parsers; called in the pool's fork server."""
    vllm_tokenizer = get_tokenizer(str(TINY_MODEL))
    return detokenizers(vllm_tokenizer), build_parsers(
        "native", ParserNames(PARSER, REASONING_PARSER), vllm_tokenizer
    )


async def by_kind() -> list[Row]:
    """Return the delays of each kind of text, all kinds at once, with the linear parsers inline."""
    backend = inline("linear", "hermes")
    freeze_loaded()  # as workers do
    start = asyncio.get_running_loop().time() + 0.1
    delays = {kind: Delays() for kind in KINDS}
    tasks = []
    for kind in KINDS:
        asked = answer(kind, BY_KIND_TOKENS)
        for number in range(BY_KIND_STREAMS):
            generation = Generation(
                asked, BY_KIND_PACE, start + number / BY_KIND_STREAMS / BY_KIND_PACE
            )
            tasks.append(run_in_worker(backend, generation, delays[kind]))
    await asyncio.gather(*tasks)
    return [delays[kind].row(kind) for kind in KINDS]


async def stalls(streams: int, seconds: float, processes: int) -> list[Row]:
    """Return a row for each system; the first row is without the long call."""
    settings = PoolSettings(
        processes=processes,
        build="benchmarks.stall:pool_parts",
        arguments={},
        parsers_name=PARSER,
    )
    pool = PoolSupervisor(settings)
    await pool.ready()
    systems: list[tuple[str, PostprocessBackend | DynamoPostprocessor, bool]] = [
        ("pool, no long call", pool, False),
        ("pool", pool, True),
        ("linear, inline", inline("linear"), True),
        ("native, inline", inline("native"), True),
        ("Dynamo's Python processor", DynamoPostprocessor(PARSER), True),
    ]
    freeze_loaded()
    rows = []
    try:
        for name, system, with_call in systems:
            print(name, file=sys.stderr)
            send = sender(system)
            delays, call = await run_streams(send, streams, seconds, with_call=with_call)
            rows.append(delays.row(name, call))
    finally:
        pool.close()
    return rows


def sender(system: PostprocessBackend | DynamoPostprocessor) -> Send:
    """Return the function that sends a stream through `system`."""
    if isinstance(system, DynamoPostprocessor):
        return lambda generation, delays: run_in_dynamo(system, generation, delays)
    return lambda generation, delays: run_in_worker(system, generation, delays)


async def measure(arguments: argparse.Namespace) -> dict[str, list[Row]]:
    """Return the rows of both parts."""
    kinds = await by_kind()
    rows = await stalls(arguments.streams, arguments.seconds, arguments.processes)
    return {"ms by kind of text": kinds, "ms of content during a long call": rows}


def main() -> None:
    """Run the benchmark and print its report."""
    parser = build_parser(__doc__)
    parser.add_argument("--streams", type=int, default=32, help="streams of content")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long the streams last")
    parser.add_argument("--processes", type=int, default=2, help="processes of the pool")
    arguments = parser.parse_args()
    show(uvloop.run(measure(arguments)), as_json=arguments.json)


if __name__ == "__main__":
    main()
