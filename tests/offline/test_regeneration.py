"""Malformed calls of a batch are generated again, and a good answer is left alone."""

from __future__ import annotations

import json
import random
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field

import pytest
from backedge.base.json_types import JsonObject
from backedge.base.limits import MAX_CALL_ATTEMPTS
from backedge.offline.completion import Completion, CompletionSetup, StopPolicy, TokenLogprobs
from backedge.offline.contracts import GenerationOptions
from backedge.offline.regeneration import generate_again
from backedge.offline.results import GeneratedChoice, RowError
from backedge.offline.rows import Prompt, Row, resolve_sampling
from backedge.parsers.events import ToolCallStarted
from backedge.postprocess.messages import EngineLogprob
from backedge.tokenization.model_files import GenerationConfig

from benchmarks.samples.tokenizers import encode
from tests.parsers.families.family import Family
from tests.slips.regeneration import Model, sample
from tests.slips.slips import PAIRS, TOOLS, Slip
from tests.slips.systems import WRITERS

EVERY = 60
MAX_TOKENS = 500


@dataclass
class Engine:
    """A back end whose model writes a slip at first, and then what it meant.

    fails: it refuses all grammars. always: the model slips at each attempt.
    asked: of each row, the prompt's length, its grammar and its limit.
    """

    model: Model
    slips: Sequence[Slip]
    fails: bool = False
    always: bool = False
    asked: list[tuple[int, JsonObject | None, int | None]] = field(default_factory=list)

    def build_rows(self, n: int = 1) -> Iterator[Row]:
        model = self.model
        stops = StopPolicy(max_new_tokens=MAX_TOKENS)
        for index in range(len(self.slips)):
            setup = CompletionSetup(
                *(str(index), model.detokenizers, stops, model.prompt),
                *(model.parsers, model.request, 0),
            )
            yield Row(
                *(index, str(index), Prompt(model.prompt)),
                resolve_sampling(GenerationOptions(), GenerationConfig()),
                *(MAX_TOKENS, ()),
                lambda setup=setup: [Completion(number, setup) for number in range(n)],  # type: ignore[misc]  # its type is clear
                calls=model.format,
            )

    def generate(self, rows: Iterator[Row]) -> Generator[Row, None, None]:
        """Yield the rows in twos, each time in another order."""
        while held := [row for _, row in zip(range(2), rows, strict=False)]:
            random.Random(len(self.asked)).shuffle(held)
            for row in held:
                grammar = None if row.grammar is None else row.grammar.guided
                self.asked.append((len(row.prompt.token_ids), grammar, row.max_new_tokens))
                if self.fails and grammar is not None:
                    row.error = RowError("generation", "no grammars here")
                else:
                    for completion in row.completions:
                        self._feed(completion, self._write(row, grammar), row.index)
                yield row

    def _write(self, row: Row, grammar: JsonObject | None) -> list[int]:
        slip, write = self.slips[row.index], self.model.family.write
        assert write is not None
        if grammar is None or self.always:
            return encode(self.model.tokenizer, slip.output)
        parser = self.model.parsers(self.model.request, self.model.prompt)
        kept = row.prompt.token_ids[len(self.model.prompt) :]
        events = [event for id_ in kept for event in parser.feed(self.model.read([id_]), (id_,))]
        done = sum(isinstance(event, ToolCallStarted) for event in events)
        header = "<|start|>assistant"
        again = write("", slip.calls[done:] or slip.calls[-1:])
        text = self.model.read(kept)
        # The header of a message may have been kept.
        return encode(self.model.tokenizer, again.removeprefix(header if header in text else ""))

    def _feed(self, completion: Completion, token_ids: Sequence[int], seed: int) -> None:
        drawn = random.Random(seed)
        while token_ids:
            size = drawn.randint(1, 40)
            part, token_ids = token_ids[:size], token_ids[size:]
            own = [-(id_ % 100) / 10 for id_ in part]
            top = [[EngineLogprob(id_, 1, lp)] for id_, lp in zip(part, own, strict=True)]
            logprobs = TokenLogprobs(own, top)
            completion.feed(part, logprobs)
        completion.feed((), ended="stop")


def run(engine: Engine, n: int = 1) -> list[GeneratedChoice]:
    rows = sorted(generate_again(engine.generate, engine.build_rows(n)), key=lambda row: row.index)
    assert [row.index for row in rows] == [*range(len(engine.slips))]
    return [choice for row in rows for choice in row.result("x").choices]


def read_calls(choice: GeneratedChoice) -> list[tuple[str, object]]:
    assert choice.message is not None
    return [(call.name, json.loads(call.arguments)) for call in choice.message.tool_calls]


@pytest.mark.parametrize("family", WRITERS, ids=lambda family: family.name)
def test_an_answer_is_that_of_a_worker(family: Family) -> None:
    engine = Engine(Model(family, tuple(TOOLS)), list(sample(family, EVERY)))
    for choice, slip in zip(run(engine), engine.slips, strict=True):
        worker = Model(family, tuple(TOOLS)).ask(slip, "regenerate").delta
        served = [
            (call.function.name, json.loads(call.function.arguments)) for call in worker.tool_calls
        ]
        assert read_calls(choice) == served, slip.output
        # The logprobs are those of the final answer's tokens.
        assert choice.logprobs is not None
        assert [each.logprob for each in choice.logprobs] == [
            -(id_ % 100) / 10 for id_ in choice.token_ids
        ]


def test_good_answers_are_asked_for_once() -> None:
    family = WRITERS[0]
    assert family.write is not None
    right = [Slip(family.name, calls, (), family.write("", calls)) for calls in PAIRS]
    engine = Engine(Model(family, tuple(TOOLS)), right)
    assert [read_calls(choice) for choice in run(engine)] == [list(calls) for calls in PAIRS]
    assert len(engine.asked) == len(PAIRS)


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("fails", [True, False])
def test_a_call_stays_open_after_the_last_attempt(fails: bool, n: int) -> None:
    family = next(each for each in WRITERS if each.name == "hermes")
    assert family.write is not None
    output = family.write("", PAIRS[0]).replace('"alpha"', '"alpha')
    slip = Slip(family.name, PAIRS[0], (), output)
    engine = Engine(Model(family, tuple(TOOLS)), [slip], fails=fails, always=True)
    choices = run(engine, n)
    grammars = [grammar for _, grammar, _ in engine.asked if grammar is not None]
    # A request has four attempts in all.
    assert len(grammars) == (n if fails else min(MAX_CALL_ATTEMPTS * n, 4))
    for choice in choices:
        assert choice.raw_text == output
        assert choice.message is not None
        assert read_calls(choice) == [PAIRS[0][1]]


def test_an_attempt_has_what_is_left_of_the_answer() -> None:
    family = next(each for each in WRITERS if each.name == "hermes")
    assert family.write is not None
    output = "Look. " + family.write("", PAIRS[0]).replace('"alpha"', '"alpha')
    engine = Engine(
        Model(family, tuple(TOOLS)), [Slip(family.name, PAIRS[0], (), output)], always=True
    )
    run(engine)
    (first, none, limit), (again, grammar, left), *_ = engine.asked
    assert (none, limit) == (None, MAX_TOKENS)
    assert grammar is not None
    assert left == MAX_TOKENS - (again - first)
    assert again - first == len(encode(engine.model.tokenizer, "Look. "))
