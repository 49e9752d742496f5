"""The cost of a token where a checkpoint describes its own answers, in each way to parse them.

    python -m benchmarks.descriptions [--json] [--tokens 100 400]

A made-up description is read by our table, by transformers' own parser in the process itself, as
in commands and batches, and by that parser in a pool, as in workers and frontends. Answers of
reasoning, text and one call arrive a token at a time.
"""

from __future__ import annotations

import asyncio
import os
import statistics
from collections.abc import AsyncIterator

import msgspec
from backedge.base.json_types import JsonObject
from backedge.engines.transformers.parsers import DescribedParsers
from backedge.parsers.base import ParserFactory, ParserNames, ParserRequest
from backedge.parsers.parser_lookup import linear_parsers
from backedge.parsers.response_template import name_description
from backedge.postprocess.settings import MERGE_DELAYS, PostprocessSettings
from backedge.tokenization.detokenizer import DetokenizerFactory, read_vocabulary
from backedge.worker.backend import InlineBackend, PostprocessBackend
from backedge.worker.pool import PoolSettings, PoolSupervisor
from backedge.worker.request_stream import EngineRequestHandle, WorkerPostprocessor
from typing_extensions import override

from tests.parsers.made_up import MADE_UP, TOOL
from tests.support import encode, params, tiny_detokenizers, tiny_tokenizer

from .cpu import CpuTime, cpu_time
from .report import build_parser, show

NAME = name_description(MADE_UP)
NAMES = ParserNames(NAME, NAME)
SETTINGS = PostprocessSettings(delays=MERGE_DELAYS["lowest"])
STREAMS = 8
ROUNDS = 5
TOKEN_S = 0.002
WORDS = "all the words of an answer "


class Row(msgspec.Struct):
    """tokens: of an answer. own_us, pool_us: CPU time per token, here and in the pool."""

    way: str
    tokens: int
    own_us: float
    pool_us: float


def build() -> tuple[DetokenizerFactory, ParserFactory]:
    """Return transformers' parser; runs in the fork server as well."""
    return tiny_detokenizers(), DescribedParsers(tiny_tokenizer(), NAMES)


def build_pool() -> PoolSupervisor:
    """Start one process."""
    place = f"benchmarks.descriptions:{build.__name__}"
    return PoolSupervisor(
        PoolSettings(
            processes=1, build=place, arguments={}, parsers_name=NAME, postprocess=SETTINGS
        )
    )


def write_answer(tokens: int) -> list[int]:
    """Return the tokens of reasoning, text and a call, each about a third of the answer."""
    words = WORDS * (tokens // len(encode(WORDS)) // 3)
    return encode(
        f"<|muse|>{words}<|hush|>\n<|say|>{words}<|hush|>\n"
        f"<|act|>get_time<|with|><arg zone>{words}</arg><arg days>3</arg><|hush|><|im_end|>"
    )


class Engine(EngineRequestHandle):
    """Generates a token every `TOKEN_S`."""

    def __init__(self, token_ids: list[int]) -> None:
        self._token_ids = token_ids

    @override
    async def abort(self, index: int) -> None:
        """Do nothing: no answer ends early."""

    @override
    def set_stream_interval(self, index: int, tokens: int) -> None:
        """Do nothing: each token is an output of its own."""

    async def outputs(self) -> AsyncIterator[JsonObject]:
        """Yield the outputs."""
        *body, last = self._token_ids
        for token_id in body:
            yield {"index": 0, "token_ids": [token_id]}
            await asyncio.sleep(TOKEN_S)
        yield {"index": 0, "token_ids": [last], "finish_reason": "stop"}


async def read(postprocessor: WorkerPostprocessor, token_ids: list[int]) -> None:
    """Read one answer. Raises `ValueError` unless its call is complete."""
    engine = Engine(token_ids)
    request = ParserRequest(tools=[TOOL], tool_choice="auto")
    asked = params(parser=request)
    texts = ""
    async for chunk in postprocessor.stream(engine.outputs(), asked, [], engine):
        texts += str(chunk)
    if "tool_calls" not in texts:
        raise ValueError(f"no call was read: {texts[-200:]}")


async def measure(way: str, backend: PostprocessBackend, tokens: int) -> Row:
    """Return the medians of `ROUNDS`, each with `STREAMS` answers at once."""
    postprocessor, token_ids = WorkerPostprocessor(backend), write_answer(tokens)
    spent: list[CpuTime] = []
    for _ in range(ROUNDS):
        before = cpu_time(os.getpid())
        await asyncio.gather(*(read(postprocessor, token_ids) for _ in range(STREAMS)))
        spent.append(cpu_time(os.getpid()).since(before))
    count = STREAMS * len(token_ids) / 1e6
    own = statistics.median(one.own_s for one in spent) / count
    children = statistics.median(one.children_s for one in spent) / count
    return Row(way, len(token_ids), own, children)


async def measure_all(lengths: list[int]) -> list[Row]:
    """Return a row for each way and length."""
    table = linear_parsers(NAMES, read_vocabulary(tiny_tokenizer()))
    backends: dict[str, PostprocessBackend] = {
        "table": InlineBackend(tiny_detokenizers(), table, SETTINGS),
        "transformers, in the process": InlineBackend(*build(), SETTINGS),
    }
    rows = [
        await measure(way, backend, tokens)
        for way, backend in backends.items()
        for tokens in lengths
    ]
    pool = build_pool()
    try:
        await pool.ready()
        rows += [await measure("transformers, in a pool", pool, tokens) for tokens in lengths]
    finally:
        pool.close()
    return rows


def main() -> None:
    """Print a table, or JSON."""
    parser = build_parser(__doc__)
    parser.add_argument("--tokens", type=int, nargs="+", default=[100, 400], help="of an answer")
    flags = parser.parse_args()
    rows = asyncio.run(measure_all(flags.tokens))
    show({"us per token": rows}, as_json=flags.json)


if __name__ == "__main__":
    main()
