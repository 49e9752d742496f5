"""A request whose malformed call the engine generates again, and the ends of that."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from backedge.base.json_types import JsonObject
from backedge.base.limits import MAX_CALL_ATTEMPTS, MAX_DISCARDED_TOKENS, MAX_REQUEST_ATTEMPTS
from backedge.guided.call_policy import find_call_format
from backedge.parsers.base import ParserNames, ParserRequest
from backedge.postprocess.call_hold import CallFault, RegenerationOutcome
from backedge.postprocess.delta_builder import aggregate_deltas
from backedge.postprocess.messages import MalformedCall
from backedge.postprocess.settings import MERGE_DELAYS, PostprocessSettings
from backedge.recording.recorder import Recorder
from backedge.worker.backend import InlineBackend
from backedge.worker.regeneration import Attempt, Regenerator
from backedge.worker.request_stream import WorkerPostprocessor

from tests.postprocess.test_call_hold import GOOD, call, declare
from tests.support import encode, message, params, tiny_detokenizers, tiny_parsers
from tests.worker.scripted import Engine, Sent, Step, deltas, output, run_in_virtual_time

NAMES = ParserNames("hermes")
PROMPT = [1, 2, 3]
BAD = call("{}")
ROME = [{"name": "get_weather", "arguments": '{"city": "Rome"}'}]
END = output([], finish_reason="stop")


@dataclass
class Model:
    """Writes `first`, and at each other attempt the next of `more`.

    requests: of the attempts. engines: of all requests, the first one included.
    """

    first: list[Step]
    more: list[list[Step]] = field(default_factory=list)
    requests: list[JsonObject] = field(default_factory=list)
    engines: list[Engine] = field(default_factory=list)
    counts: Counter[tuple[CallFault, RegenerationOutcome]] = field(default_factory=Counter)
    discarded: int = 0
    recorder: Recorder | None = None
    streams: bool = False

    def start(self, request: JsonObject, _: str) -> Attempt:
        # The request before has ended.
        assert all(engine.closed for engine in self.engines)
        self.requests.append(request)
        script = count_prompt(self.more[len(self.requests) - 1], len(request["token_ids"]))
        self.engines.append(Engine(script))
        return Attempt(self.engines[-1].outputs(), self.engines[-1])

    def count(self, fault: CallFault, outcome: RegenerationOutcome, discarded: int) -> None:
        self.counts[fault, outcome] += 1
        self.discarded += discarded

    async def answer(self, request: JsonObject, **fields: Any) -> list[Sent]:
        settings = PostprocessSettings(
            malformed_calls="regenerate", delays=MERGE_DELAYS["lowest"]
        )  # fmt: skip
        backend = InlineBackend(tiny_detokenizers(), tiny_parsers(NAMES), settings)
        asked = params(prompt_length=len(PROMPT), parser=declare(), include_usage=True, **fields)
        format_ = find_call_format(NAMES)
        assert format_ is not None
        shared = Regenerator(format_, read, self.count, self.streams)
        again = shared.begin(asked, request, PROMPT, self.start)
        self.engines.append(engine := Engine(count_prompt(self.first, len(PROMPT))))
        loop = asyncio.get_running_loop()
        sent: list[Sent] = []
        worker = WorkerPostprocessor(backend, recorder=self.recorder)
        stream = worker.stream(engine.outputs(), asked, PROMPT, engine, again=again)
        try:
            async for chunk in stream:
                sent += [Sent(loop.time(), chunk)]
        except RuntimeError as error:
            sent.append(Sent(loop.time(), {"raised": error}))
        else:
            # Whatever the prompts of the attempts, the client sees its own.
            assert {part.post.usage.prompt_tokens for part in sent if part.post.usage} <= {
                len(PROMPT)
            }
        return sent


def count_prompt(script: list[Step], tokens: int) -> list[Step]:
    """Return an engine's outputs, of which those that end the answer report its prompt."""
    usage = {"completion_usage": {"prompt_tokens": tokens}}
    return [
        {**usage, **step} if isinstance(step, dict) and step.get("finish_reason") else step
        for step in script
    ]


def read(token_ids: list[int] | tuple[int, ...] | Any) -> str:
    return tiny_detokenizers().read(token_ids)


def written(text: str) -> list[Step]:
    """Return an engine's outputs of a text, a token at a time."""
    return [*(output([token_id]) for token_id in encode(text)), END]


def ask(model: Model, request: JsonObject | None = None, **fields: Any) -> list[Sent]:
    return run_in_virtual_time(model.answer({"token_ids": PROMPT, **(request or {})}, **fields))


def read_tokens(sent: list[Sent]) -> list[int]:
    return [token_id for part in sent for token_id in part.chunk["token_ids"]]


@pytest.mark.parametrize("stream", [True, False])
def test_the_client_gets_the_second_attempt_alone(stream: bool) -> None:
    model = Model(written(f"Look.\n{BAD}"), [written(f"{GOOD}\nDone.")])
    sent = ask(model, {"stop_conditions": {"max_tokens": 99}}, stream=stream)
    whole = message(aggregate_deltas(deltas(sent)))
    assert (whole["tool_calls"], whole["finish_reason"]) == (ROME, "tool_calls")
    assert whole["content"] == "Look.\nDone."
    kept = encode("Look.\n")
    assert read_tokens(sent) == kept + encode(f"{GOOD}\nDone.")
    [request] = model.requests
    assert request["token_ids"] == PROMPT + kept
    assert request["stop_conditions"]["max_tokens"] == 99 - len(kept)
    assert "structural_tag" in request["sampling_options"]["guided_decoding"]
    # The grammar holds from the first token on, whether or not the engine knows a thought's end.
    assert (request["reasoning_ended"], request["require_reasoning"]) == (True, False)
    assert model.counts == {("missing_parameter", "complete"): 1}
    assert model.discarded == len(encode(BAD))


def test_a_call_stays_open_after_the_last_attempt() -> None:
    model = Model(written(BAD), [written(BAD)] * MAX_CALL_ATTEMPTS)
    whole = aggregate_deltas(deltas(ask(model)))
    assert len(model.requests) == MAX_CALL_ATTEMPTS
    assert model.counts == {("missing_parameter", "open"): 1}
    # As without another attempt.
    assert message(whole)["tool_calls"] == [{"name": "get_weather", "arguments": "{}"}]


def test_a_request_has_so_many_attempts() -> None:
    more = [written(f"{GOOD}\n{BAD}")] * (MAX_REQUEST_ATTEMPTS + 1)
    model = Model(written(BAD), more)
    whole = message(aggregate_deltas(deltas(ask(model))))
    assert len(model.requests) == MAX_REQUEST_ATTEMPTS
    assert model.counts["missing_parameter", "open"] == 1
    assert len(whole["tool_calls"]) == MAX_REQUEST_ATTEMPTS + 1


@pytest.mark.parametrize(
    "more", [[RuntimeError("no such grammar")], [{"finish_reason": "error: no", "token_ids": []}]]
)
def test_an_engine_that_refuses_goes_on_without_a_grammar(more: list[Step]) -> None:
    model = Model([*written(f"A{BAD}")[:-1], 0.1, END], [more, written(" And on.")])
    whole = message(aggregate_deltas(deltas(ask(model))))
    assert whole["tool_calls"] == [{"name": "get_weather", "arguments": "{}"}]
    assert whole["content"] == "A And on."
    assert model.requests[1]["sampling_options"]["guided_decoding"] is None
    assert model.requests[1]["token_ids"] == PROMPT + encode(f"A{BAD}")
    assert model.counts == {("missing_parameter", "open"): 1}


def test_an_answer_that_had_ended_needs_no_engine_then() -> None:
    model = Model(written(f"A{BAD}"), [[RuntimeError("no such grammar")]])
    whole = message(aggregate_deltas(deltas(ask(model))))
    assert (whole["content"], len(model.requests)) == ("A", 1)


def test_the_engines_request_is_ended_first() -> None:
    model = Model([*written(f"A{BAD} and so on")[:-1], 0.1, END], [written(GOOD)])
    whole = message(aggregate_deltas(deltas(ask(model))))
    assert (whole["content"], whole["tool_calls"]) == ("A", ROME)
    assert model.engines[0].aborted == [0]


def test_an_engine_that_dies_sends_no_token_of_the_call() -> None:
    lost = RuntimeError("the engine died")
    model = Model([*written("A" + GOOD)[:-4], lost])
    sent = ask(model)
    assert sent[-1].chunk["raised"] is lost
    assert read_tokens(sent[:-1]) == encode("A")


@pytest.mark.parametrize(
    ("request_fields", "fields"),
    [
        ({}, {"n": 2}),
        ({"prefill_result": {"a": 1}}, {}),
        ({"prompt_embeds": "x"}, {}),
        ({"sampling_options": {"guided_decoding": {"json": {}}}}, {}),
        ({}, {"parser": ParserRequest()}),
        ({}, {"parser": msgspec.structs.replace(declare(), once=True)}),
    ],
)
def test_some_requests_have_no_other_attempt(
    request_fields: JsonObject, fields: dict[str, Any]
) -> None:
    format_ = find_call_format(NAMES)
    assert format_ is not None
    shared = Regenerator(format_, read, Model([]).count)
    asked = params(**{"prompt_length": len(PROMPT), "parser": declare(), **fields})
    assert shared.begin(asked, request_fields, PROMPT, Model([]).start) is None


def test_usage_counts_the_final_answer() -> None:
    usage = {"prompt_tokens": len(PROMPT), "prompt_tokens_details": {"cached_tokens": 0}}
    kept = encode("A")
    later = {
        "prompt_tokens": len(PROMPT) + len(kept),
        "prompt_tokens_details": {"cached_tokens": len(PROMPT) + 1},
    }
    first = [{**output(kept), "completion_usage": usage}, *written(BAD)]
    second = [{**output([token_id]), "completion_usage": later} for token_id in encode(GOOD)]
    model = Model([*first], [[*second, END]])
    sent = ask(model)
    found = sent[-1].post.usage
    assert found is not None
    assert found.prompt_tokens == len(PROMPT)
    assert found.completion_tokens == len(kept) + len(encode(GOOD))
    assert found.cached_tokens == len(PROMPT)


def test_discarded_tokens_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(encode(BAD)) < MAX_DISCARDED_TOKENS
    monkeypatch.setattr("backedge.guided.call_again.MAX_DISCARDED_TOKENS", 2 * len(encode(BAD)))
    more = [written(f"{GOOD}\n{BAD}")] * 4
    model = Model(written(BAD), more)
    ask(model)
    assert len(model.requests) == 2
    assert model.discarded <= 2 * len(encode(BAD))


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("good", [0, 1, MAX_CALL_ATTEMPTS, None])
def test_the_end_reports_discarded_tokens_and_open_calls(good: int | None, stream: bool) -> None:
    """good: the attempt that is right; None: no attempt is."""
    slip = call('{"city": }')
    outputs = [slip] * (MAX_CALL_ATTEMPTS + 1) if good is None else [slip] * good + [GOOD]
    first, *more = map(written, outputs)
    model = Model(first, more)
    last = deltas(ask(model, stream=stream, reports_calls=True))[-1]
    discarded = (len(outputs) - 1) * len(encode(slip))
    assert (last.discarded_tokens, model.discarded) == (discarded, discarded)
    assert last.malformed_calls == ([MalformedCall(0, "invalid_json")] if good is None else [])


def test_an_attempt_that_the_engine_refuses_discards_nothing() -> None:
    model = Model([*written(BAD)[:-1], 0.1, END], [[RuntimeError("no")], written("On.")])
    last = deltas(ask(model, reports_calls=True))[-1]
    assert (last.discarded_tokens, model.discarded) == (0, 0)


def test_a_call_that_is_being_written_sends_nothing_and_is_not_late() -> None:
    steps: list[Step] = []
    for step in written(f"A{GOOD}")[:-1]:
        steps += [step, 3.0]
    sent = ask(Model([*steps, END]))
    assert all(part.chunk["token_ids"] or part.post.deltas for part in sent)
    assert read_tokens(sent) == encode(f"A{GOOD}")
