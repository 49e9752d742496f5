"""Slips in front of an engine that generates a malformed call again, held to its grammar.

`python -m tests.slips.regeneration` prints what a client gets of each format's slips with
`--postprocess-malformed-calls open`, and with `regenerate`. The model writes a slip at first, and
at another attempt the calls that are missing, as it was trained to.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from backedge.base.json_types import JsonObject
from backedge.guided.call_policy import find_call_format
from backedge.parsers.base import ParserRequest, WorkerMalformedCalls
from backedge.parsers.events import ToolCallStarted
from backedge.postprocess.call_hold import CallFault, RegenerationOutcome
from backedge.postprocess.delta_builder import aggregate_deltas
from backedge.postprocess.messages import (
    KEY,
    ChoiceDelta,
    PostprocessedChunk,
    PostprocessParams,
    read,
)
from backedge.postprocess.settings import MERGE_DELAYS, PostprocessSettings
from backedge.tokenization.detokenizer import detokenizers, read_vocabulary
from backedge.worker.backend import InlineBackend
from backedge.worker.engine_request import EngineRequestHandle
from backedge.worker.regeneration import Attempt, Regenerator
from backedge.worker.request_stream import WorkerPostprocessor
from typing_extensions import override

from benchmarks.samples.tokenizers import encode
from tests.conformance.peers import SYSTEMS, load_tokenizer
from tests.parsers.families.family import TURN, Family
from tests.slips.slips import TOOLS, Slip, slips
from tests.slips.systems import WRITERS

EVERY = 8  # one of so many slips is tried
STRICT = [{**tool, "function": {**tool["function"], "strict": True}} for tool in TOOLS]


class Got(StrEnum):
    """What a client gets of two calls, one of which has a slip."""

    RIGHT = "right"
    SOME = "one of two"
    TEXT = "text"
    LOST = "lost"
    WRONG = "WRONG"


@dataclass
class Running(EngineRequestHandle):
    """One request of the engine, which writes these tokens and ends."""

    token_ids: Sequence[int]
    is_aborted: bool = False

    @override
    async def abort(self, index: int) -> None:
        self.is_aborted = True

    @override
    def set_stream_interval(self, index: int, tokens: int) -> None:
        pass

    async def outputs(self) -> AsyncIterator[JsonObject]:
        for token_id in self.token_ids:
            if self.is_aborted:
                return
            yield {"index": 0, "token_ids": [token_id]}
            await asyncio.sleep(0)
        yield {"index": 0, "token_ids": [], "finish_reason": "stop"}


@dataclass
class Model:
    """A model of a family. grammars: of its other attempts, each with what it writes there.

    faults: of the calls that it was to generate again, with what became of them.
    """

    family: Family
    tools: Sequence[JsonObject] = tuple(STRICT)
    grammars: list[tuple[JsonObject, str]] = field(default_factory=list)
    faults: list[tuple[CallFault, RegenerationOutcome]] = field(default_factory=list)

    def __post_init__(self) -> None:
        names = self.family.names
        self.tokenizer = load_tokenizer(names)
        self.parsers = SYSTEMS["ours"](names)
        self.detokenizers = detokenizers(self.tokenizer)
        self.prompt = list(encode(self.tokenizer, self.family.prompt or TURN))
        tokens = read_vocabulary(self.tokenizer).ids
        self.format = find_call_format(names, lambda: tokens)
        self.request = ParserRequest(tools=list(self.tools), tool_choice="auto")

    def read(self, token_ids: Sequence[int]) -> str:
        return self.detokenizers.read(token_ids)

    def ask(self, slip: Slip, mode: WorkerMalformedCalls, *, stream: bool = False) -> ChoiceDelta:
        """Return the sum of all deltas of the answer."""
        params = PostprocessParams(
            response_id="r",
            created=1,
            model="m",
            prompt_length=len(self.prompt),
            stream=stream,
            parser=self.request,
        )
        settings = PostprocessSettings(malformed_calls=mode, delays=MERGE_DELAYS["lowest"])
        worker = WorkerPostprocessor(InlineBackend(self.detokenizers, self.parsers, settings))
        running = Running(encode(self.tokenizer, slip.output))
        again = None
        if mode == "regenerate":
            assert self.format is not None
            shared = Regenerator(self.format, self.read, self._note)
            start = self._meant(slip)
            again = shared.begin(params, {"token_ids": self.prompt}, self.prompt, start)

        async def answer() -> list[ChoiceDelta]:
            chunks = worker.stream(running.outputs(), params, self.prompt, running, again=again)
            return [delta async for chunk in chunks for delta in read_deltas(chunk)]

        return aggregate_deltas(asyncio.run(answer()))

    def _note(self, fault: CallFault, outcome: RegenerationOutcome, _: int) -> None:
        self.faults.append((fault, outcome))

    def _meant(self, slip: Slip) -> Callable[[JsonObject, str], Attempt]:
        write = self.family.write
        assert write is not None

        def start(request: JsonObject, _: str) -> Attempt:
            kept = request["token_ids"][len(self.prompt) :]
            parser = self.parsers(self.request, self.prompt)
            events = [event for id_ in kept for event in parser.feed(self.read([id_]), (id_,))]
            done = sum(isinstance(event, ToolCallStarted) for event in events)
            text = write("", slip.calls[done:] or slip.calls[-1:])
            self.grammars.append((request["sampling_options"]["guided_decoding"], text))
            running = Running(encode(self.tokenizer, text))
            return Attempt(running.outputs(), running)

        return start


def read_deltas(chunk: JsonObject) -> list[ChoiceDelta]:
    post = read(PostprocessedChunk, chunk["extra_args"][KEY])
    return [] if post is None else post.deltas


def read_calls(whole: ChoiceDelta) -> list[tuple[str, Any]]:
    """Return the calls of an answer. Raises ValueError for arguments that are no JSON."""
    return [
        (call.function.name or "", json.loads(call.function.arguments))
        for call in whole.delta.tool_calls
    ]


def classify(whole: ChoiceDelta, slip: Slip) -> Got:
    """Return what a client has got."""
    calls, meant = read_calls(whole), [(name, arguments) for name, arguments in slip.calls]
    if calls == meant:
        return Got.RIGHT
    if any(call not in meant for call in calls):
        return Got.WRONG
    return Got.SOME if calls else Got.TEXT if whole.delta.content else Got.LOST


def sample(family: Family, every: int) -> Iterable[Slip]:
    """Return one of `every` slips of a family."""
    return itertools.islice(slips(family), 0, None, every)


def count(family: Family, mode: WorkerMalformedCalls, every: int) -> Counter[Got]:
    """Count what a client gets of a family's slips."""
    return Counter(
        classify(Model(family).ask(slip, mode), slip) for slip in sample(family, every)
    )  # fmt: skip


def main() -> None:
    """Print the table."""
    totals: dict[WorkerMalformedCalls, Counter[Got]] = {"open": Counter(), "regenerate": Counter()}
    print(f"{'':18}" + "".join(f"{mode:>50}" for mode in totals))  # noqa: T201 - the table
    print(f"{'format':18}" + "".join(f"{got:>10}" for _ in totals for got in Got))  # noqa: T201 - as above
    for family in [*WRITERS, None]:
        if family is not None:
            counts = {mode: count(family, mode, EVERY) for mode in totals}
            for mode, found in counts.items():
                totals[mode] += found
        else:
            counts = totals
        name = "all" if family is None else family.name
        cells = (f"{counts[mode][got]:>10,}" for mode in totals for got in Got)
        print(f"{name:18}" + "".join(cells), flush=True)  # noqa: T201 - the table


if __name__ == "__main__":
    main()
