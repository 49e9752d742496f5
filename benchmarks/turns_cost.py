"""The cost of keeping turns in a frontend: CPU time of paired requests in one process.

An agent asks for the sixth time, after five calls; the frontend knows all of its answers. The
workers have post-processed the chunks, of one token each, so the frontend has little else to do.
In each round the modes take turns. Dynamo's HTTP server and router, which take most of a frontend's
time, are not part of it: a whole frontend's ratios are nearer to 1.
"""

from __future__ import annotations

import asyncio
import gc
import statistics
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence

import msgspec
from backedge.base.json_types import JsonObject
from backedge.engines.transformers.frontend import HuggingFacePrompts
from backedge.frontend.chat_model import ChatModel
from backedge.frontend.prompt_preprocessor import PromptPreprocessor
from backedge.frontend.prompt_queue import PromptQueue
from backedge.frontend.turns.flags import TurnMode, TurnSettings
from backedge.frontend.turns.turn_keeper import TurnKeeper
from backedge.frontend.turns.turn_store import TurnStore
from backedge.guided.call_policy import CallPolicy
from backedge.postprocess import Chunk, Postprocessor, PostprocessParams
from backedge.postprocess.messages import KEY, PostprocessedChunk, encode, read

from tests.frontend.chat_requests import FILES, TOOL, raw_request
from tests.frontend.doubles import Annotated, Context, Engine, deployment
from tests.support import encode as tokenize
from tests.support import tiny_detokenizers, tiny_parsers

from .report import compare_rounds

CALLS = 5
OFF: TurnMode = "off"
MODES: tuple[TurnMode, ...] = (OFF, "reasoning", "exact")
US_PER_S = 1e6
# Answers of these numbers of tokens; the difference is the cost per token.
SHORT, LONG = 8, 2008
REQUESTS = {SHORT: 16, LONG: 2}
WARM_UP = 3
CALL = '<tool_call>\n{"name":"f","arguments":{"a":1}}\n</tool_call>'
END = "<|im_end|>"
WORDS = "First I compare what I know of it, then I add the rest. "


class CostRow(msgspec.Struct):
    """One mode's cost over that of `off`: medians of all rounds.

    request: of an answer of `SHORT` tokens. token: of each further token. whole: of an answer of
    `LONG` tokens. request_us, token_us: what is added.
    """

    mode: str
    request: float
    token: float
    whole: float
    request_us: float
    token_us: float
    rounds: int


class ProcessedEngine(Engine):
    """Answers as a worker that post-processes: each chunk has one token and its deltas."""

    def __init__(self) -> None:
        super().__init__([])
        self.token_ids: list[int] = []
        self._chunks: list[JsonObject] = []
        self._made_for: list[int] | None = None

    async def generate(self, request: JsonObject, *, context: object) -> AsyncIterator[Annotated]:
        """Return the stream of a request, as Dynamo's engine does."""
        if self._made_for is not self.token_ids:
            self._chunks = list(self._process(request))
            self._made_for = self.token_ids
        self.requests = [request]
        return self._stream()

    def _process(self, request: JsonObject) -> Iterator[JsonObject]:
        params = read(PostprocessParams, request["extra_args"][KEY])
        assert params is not None  # noqa: S101 - narrows the type
        post = Postprocessor(
            params, tiny_detokenizers(), tiny_parsers(), prompt_token_ids=request["token_ids"]
        )
        for number, token_id in enumerate(self.token_ids, 1):
            reason = "stop" if number == len(self.token_ids) else None
            deltas = post.feed(Chunk(token_ids=[token_id], finish_reason=reason))
            output = {"index": 0, "token_ids": [token_id], "finish_reason": reason}
            processed = encode(PostprocessedChunk(deltas=deltas))
            yield {**output, "extra_args": {KEY: processed}}

    async def _stream(self) -> AsyncIterator[Annotated]:
        for chunk in self._chunks:
            yield Annotated(chunk)


class Frontend:
    """A frontend's model in one mode, and an agent that has made its calls."""

    def __init__(self, mode: TurnMode, runner: asyncio.Runner) -> None:
        self._runner = runner
        self.engine = ProcessedEngine()
        prompts = HuggingFacePrompts(
            FILES.prompt_token_ids, {}, CallPolicy(enabled=False), has_reasoning_parser=True
        )
        queue = PromptQueue(threads=1)
        factories = tiny_detokenizers(), tiny_parsers()
        preprocessor = PromptPreprocessor(prompts, FILES, queue, None)
        keeper = None
        if mode != OFF:
            keeper = TurnKeeper(TurnSettings(mode), TurnStore(1 << 28), queue, lambda: factories)
        self.model = ChatModel(
            deployment(self.engine), preprocessor, lambda: factories, turns=keeper
        )
        self._messages: list[JsonObject] = [{"role": "user", "content": "Compare them all."}]
        for number in range(CALLS):
            self._call(number)

    def _call(self, number: int) -> None:
        thought = f"Step {number}: {WORDS * 6}"
        self.engine.token_ids = tokenize(f"<think>\n{thought}\n</think>\n\n{CALL}{END}")
        ids = [
            part["id"]
            for item in self._runner.run(self._ask())
            for choice in item.get("data", {}).get("choices", ())
            for part in choice["delta"].get("tool_calls", ())
            if part.get("id")
        ]
        call = {"id": ids[0], "type": "function"}
        call["function"] = {"name": "f", "arguments": '{"a": 1}'}
        self._messages += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": ids[0], "content": "It is 21 C and sunny."},
        ]

    async def _ask(self) -> list[JsonObject]:
        messages = msgspec.json.decode(msgspec.json.encode(self._messages))
        request = raw_request(messages=messages, tools=[TOOL], stream=True)
        return [item async for item in self.model.answer(request, Context())]

    def set_answer(self, tokens: int) -> None:
        """Let the model answer with so many tokens."""
        text = tokenize(f"<think>\n{WORDS * tokens}")[: tokens - 5]
        self.engine.token_ids = [*text, *tokenize(f"\n</think>\n\nYes.{END}")][:tokens]

    def measure(self, requests: int) -> float:
        """Return the CPU microseconds of one request."""

        async def run() -> float:
            began = time.process_time()
            for _ in range(requests):
                await self._ask()
            return time.process_time() - began

        return self._runner.run(run()) / requests * US_PER_S


def build(mode: TurnMode, tokens: int, runner: asyncio.Runner) -> Frontend:
    """Return a warm frontend whose model answers with so many tokens."""
    frontend = Frontend(mode, runner)
    frontend.set_answer(tokens)
    frontend.measure(WARM_UP)
    gc.collect()
    gc.freeze()  # as a frontend does
    return frontend


def measure_cost(rounds: int) -> list[CostRow]:
    """Return the cost of each mode that keeps turns."""
    us: dict[tuple[str, int], list[float]] = {}
    with asyncio.Runner() as runner:
        frontends = {
            (mode, tokens): build(mode, tokens, runner) for tokens in REQUESTS for mode in MODES
        }
        for number in range(rounds):
            for key in frontends if number % 2 else reversed(frontends):
                us.setdefault(key, []).append(frontends[key].measure(REQUESTS[key[1]]))
    return [compare(mode, us) for mode in MODES[1:]]


def compare(mode: str, us: Mapping[tuple[str, int], Sequence[float]]) -> CostRow:
    """Return the cost of a mode. us: of each round, by mode and tokens."""
    short, long = ([us[one, tokens] for one in (mode, OFF)] for tokens in (SHORT, LONG))
    each = [
        [(whole - part) / (LONG - SHORT) for whole, part in zip(*pair, strict=True)]
        for pair in zip(long, short, strict=True)
    ]
    return CostRow(
        mode,
        compare_rounds(*short),
        compare_rounds(*each),
        compare_rounds(*long),
        subtract(*short),
        subtract(*each),
        len(short[0]),
    )


def subtract(ours: Sequence[float], others: Sequence[float]) -> float:
    """Return the median of the rounds' differences."""
    return statistics.median(one - other for one, other in zip(ours, others, strict=True))
