"""The cost of recording a token.

    python -m benchmarks.recording [--json] [--rounds 7] [--tokens 20000]

One stream of a worker without an engine: outputs of one token each, from the request pump to the
chunks that leave it: all of a worker's own work except Dynamo's runtime. The rounds take turns
without a recorder, with one, and with one that keeps the words. Measures CPU microseconds per token
of the event loop's thread and of the writer's thread, the least of all rounds.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Sequence

import msgspec
from backedge.base.json_types import JsonObject
from backedge.parsers.base import ParserNames, ParserRequest
from backedge.parsers.parser_lookup import linear_parsers
from backedge.postprocess.chunk_scheduler import MERGE_DELAYS
from backedge.postprocess.messages import PostprocessParams
from backedge.recording.flags import RecordSettings
from backedge.recording.recording import RecordedModel
from backedge.tokenization.detokenizer import detokenizers, read_vocabulary
from backedge.worker.backend import InlineBackend
from backedge.worker.build import build_recorder
from backedge.worker.metrics import WorkerMetrics
from backedge.worker.request_stream import WorkerPostprocessor

from .answers import answer, tokenizer
from .command_line import build_parser

US_PER_S = 1e6
NAMES = ParserNames("hermes", "qwen3")
OFF, ON, WITH_CONTENT = "off", "on", "on, with content"


class Row(msgspec.Struct):
    """A way to record. loop_us, writer_us: CPU per token of either thread."""

    recording: str
    loop_us: float
    writer_us: float


class Report(msgspec.Struct):
    """A whole run. added_us: what recording adds to a token in the event loop."""

    settings: dict[str, int]
    rows: list[Row]
    added_us: float


class NoEngine:
    """An engine that ignores all calls."""

    async def abort(self, index: int) -> None:
        """Do nothing."""

    def set_stream_interval(self, index: int, tokens: int) -> None:
        """Do nothing."""


class Bench:
    """One answer, and the workers that post-process it. folder: for recordings."""

    def __init__(self, tokens: int, folder: str) -> None:
        asked = answer("tools", tokens)
        self._token_ids = asked.token_ids
        self._params = PostprocessParams(
            response_id="chatcmpl-1",
            created=1,
            model="m",
            prompt_length=0,
            parser=ParserRequest(tools=asked.request["tools"], tool_choice="auto"),
        )
        self._folder = folder
        self._detokenizers = detokenizers(tokenizer())
        self._parsers = linear_parsers(NAMES, read_vocabulary(tokenizer()))

    @property
    def tokens(self) -> int:
        """How many tokens the answer has."""
        return len(self._token_ids)

    def measure(self, recording: str) -> tuple[float, float]:
        """Return CPU microseconds per token of the event loop's thread and of the writer's."""
        metrics = WorkerMetrics()
        settings = RecordSettings(folder=self._folder, content=recording == WITH_CONTENT)
        model = RecordedModel(path="m", parsers=NAMES)
        recorder = build_recorder(
            None if recording == OFF else settings, model, self._detokenizers, metrics
        )
        if recorder is not None:
            recorder.redactor()  # once for each model
        delays = MERGE_DELAYS["balanced"]
        backend = InlineBackend(self._detokenizers, self._parsers, delays)
        worker = WorkerPostprocessor(backend, metrics, recorder=recorder)
        process, thread = time.process_time(), time.thread_time()
        asyncio.run(self._stream(worker))
        in_loop = time.thread_time() - thread
        if recorder is not None:
            recorder.writer.close()
            if metrics.recordings.results["written"] != 1:
                raise RuntimeError(f"nothing was recorded: {metrics.recordings}")
        in_all = time.process_time() - process
        each = US_PER_S / self.tokens
        return in_loop * each, max(0.0, in_all - in_loop) * each

    async def _stream(self, worker: WorkerPostprocessor) -> None:
        async for _ in worker.stream(self._outputs(), self._params, [], NoEngine()):
            pass

    async def _outputs(self) -> AsyncIterator[JsonObject]:
        last = self.tokens - 1
        for position, token_id in enumerate(self._token_ids):
            output: JsonObject = {"index": 0, "token_ids": [token_id]}
            if position == last:
                output["finish_reason"] = "stop"
            yield output
            if position % 8 == 0:
                await asyncio.sleep(0)


def measure(rounds: int, tokens: int) -> Report:
    """Measure the ways to record in turns."""
    ways = (OFF, ON, WITH_CONTENT)
    samples: dict[str, list[tuple[float, float]]] = {way: [] for way in ways}
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(tokens, folder)
        for way in ways * rounds:
            samples[way].append(bench.measure(way))
    rows = [Row(way, *(min(values) for values in zip(*samples[way], strict=True))) for way in ways]
    added_us = rows[1].loop_us - rows[0].loop_us
    settings = {"rounds": rounds, "tokens": bench.tokens}
    return Report(settings, rows, added_us)


def table(report: Report) -> str:
    """Return the report as text."""
    rows = [f"{row.recording:20}{row.loop_us:>12.2f}{row.writer_us:>10.2f}" for row in report.rows]
    return "\n".join(
        [
            f"CPU microseconds per token ({report.settings['tokens']} tokens, one per output)",
            f"{'recording':20}{'event loop':>12}{'writer':>10}",
            *rows,
            f"recording adds {report.added_us:.2f} us to a token in the event loop",
        ]
    )


def main(command_line: Sequence[str] | None = None) -> None:
    """Run the benchmark and print its report."""
    parser = build_parser(__doc__, 7)
    parser.add_argument("--tokens", type=int, default=20_000, help="of the answer, about")
    arguments = parser.parse_args(command_line)
    report = measure(arguments.rounds, arguments.tokens)
    print(msgspec.json.encode(report).decode() if arguments.json else table(report))


if __name__ == "__main__":
    main()
