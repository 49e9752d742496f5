"""Batches: order, failures of rows, what is refused before anything loads."""

from __future__ import annotations

import logging
import sys
from typing import Any, ClassVar

import pytest
from backedge.base.errors import UnknownParserError
from backedge.guided.guided_request import decode_request
from backedge.offline import (
    GenerationOptions,
    TextGenerationRequest,
    VlmGenerationRequest,
    inference_backend,
    preparation,
)
from backedge.offline.contracts import CapabilityError
from backedge.offline.inference_backend import CAPABILITIES
from backedge.testing.offline import ReplayBackend

from tests.offline.batches import ask, check_batches_in_succession, replay_engine, request
from tests.support import TRANSCRIPTS

HELLO, WORLD = ask("Say hello."), ask("Greet the world.")
LONG = ask("word " * 5000)


@pytest.fixture(autouse=True)
def loads(monkeypatch):
    """Count how often weights are loaded."""
    counted = []
    monkeypatch.setattr(ReplayBackend, "load", lambda self: counted.append(self.name))
    return counted


def outcomes(results: Any) -> list[str | None]:
    return [result.error and result.error.kind for result in results]


def test_results_come_in_the_order_of_the_requests():
    requests: list[Any] = [LONG, HELLO, {"x": 1}, WORLD]
    with replay_engine() as engine:
        results = engine.generate_text_batch(requests)
    assert [result.index for result in results] == [0, 1, 2, 3]
    assert outcomes(results) == ["prompt_too_long", None, "request", None]
    assert results[1].text == TRANSCRIPTS["plain_text"]["expect"]["content"]
    assert {result.backend for result in results} == {"replay"}


def test_a_batch_without_any_good_row_loads_nothing(loads):
    with replay_engine() as engine:
        assert engine.generate_text_batch([]) == []
        [result] = engine.generate_text_batch([LONG])
    assert result.error is not None
    assert loads == []


def test_batches_in_succession():
    with replay_engine() as engine:
        check_batches_in_succession(engine)


def test_weights_load_once(loads):
    with replay_engine() as engine:
        for _ in range(2):
            engine.generate_text_batch([HELLO])
    assert loads == ["replay"]


def test_ids_of_an_iterator_are_not_kept():
    with replay_engine() as engine:
        requests = (ask("Say hello.", id="a") for _ in range(2))
        results = [result for _, result in engine.iterate_text_batch(requests)]
    assert outcomes(results) == [None, None]


def test_the_second_row_with_an_id_fails():
    with replay_engine() as engine:
        results = engine.generate_text_batch([ask("Say hello.", id="a"), ask("x", id="a"), HELLO])
    assert outcomes(results) == [None, "duplicate_id", None]
    assert "belongs to an earlier request" in str(results[1].error)


def test_requests_of_an_iterator_are_read_as_they_are_needed():
    read = []

    def requests():
        for number in range(1000):
            read.append(number)
            yield HELLO

    with replay_engine() as engine:
        results = engine.iterate_text_batch(requests())
        index, result = next(results)
        assert (index, result.error) == (0, None)
        assert len(read) < 10
        results.close()


def test_stops_of_the_options_and_of_a_row():
    asked = TextGenerationRequest(messages=TRANSCRIPTS["stop_string"]["messages"])
    with replay_engine() as engine:
        first, second = engine.generate_text_batch(
            [asked, request(TRANSCRIPTS["stop_string"])], GenerationOptions(stop="beta")
        )
    assert (first.text, first.stop_reason) == ("alpha, ", "beta")
    assert (second.text, second.stop_reason) == ("alpha, beta, gamma, ", "delta, ep")


def test_a_limit():
    with replay_engine() as engine:
        [result] = engine.generate_text_batch([HELLO], GenerationOptions(max_new_tokens=2))
    assert (len(result.token_ids), result.finish_reason) == (2, "length")


def test_an_image_needs_a_back_end_that_sees(loads):
    with (
        replay_engine() as engine,
        pytest.raises(CapabilityError, match="a request with an image needs the capability 'vlm'"),
    ):
        engine.generate_vlm_batch([VlmGenerationRequest(messages=HELLO.messages, image=b"x")])
    assert loads == []


def test_parsers_are_checked_before_anything_loads(loads):
    options = GenerationOptions(message=True, tool_call_parser="hermez")
    with (
        replay_engine() as engine,
        pytest.raises(UnknownParserError, match="'hermez' is not known"),
    ):
        engine.generate_text_batch([HELLO], options)
    assert loads == []


class AbleBackend(ReplayBackend):
    """A stand-in that says that it can do everything."""

    name: ClassVar[str] = "sglang"
    capabilities: ClassVar[frozenset[str]] = frozenset(CAPABILITIES)


@pytest.fixture
def less_able(monkeypatch):
    """A replay back end without logprobs, and another back end with them."""
    monkeypatch.setattr(ReplayBackend, "capabilities", frozenset())
    monkeypatch.setitem(inference_backend.ENGINES, "sglang", ("sglang", "AbleBackend"))
    monkeypatch.setitem(
        sys.modules,
        "backedge.engines.sglang.offline",
        sys.modules[__name__],
    )


def test_what_the_back_end_cannot_do_goes_to_the_fallback(less_able, caplog, loads):
    options = GenerationOptions(logprobs=1)
    with replay_engine(fallback_backend="sglang") as engine:
        [plain] = engine.generate_text_batch([HELLO])
        [result] = engine.generate_text_batch([HELLO], options)
    assert (plain.backend, result.backend) == ("replay", "sglang")
    assert result.logprobs
    assert "the option logprobs=1 needs 'logprobs'" in caplog.text
    assert "goes to 'sglang'" in caplog.text
    assert loads == ["replay", "sglang"]
    assert any(record.levelno == logging.WARNING for record in caplog.records)


def test_without_a_fallback_it_is_refused(less_able, loads):
    with (
        replay_engine() as engine,
        pytest.raises(CapabilityError, match=r"'logprobs', which the back end 'replay' lacks; use"),
    ):
        engine.generate_text_batch([HELLO], GenerationOptions(logprobs=1))
    assert loads == []


def test_a_row_of_an_iterator_that_the_back_end_cannot_do_fails(less_able):
    asked = request(TRANSCRIPTS["required_choice"])
    with replay_engine() as engine:
        results = [result for _, result in engine.iterate_text_batch(iter([asked, HELLO]))]
    assert outcomes(sorted(results, key=lambda result: result.index)) == ["request", None]
    [error] = [str(result.error) for result in results if result.error]
    assert "needs the capability 'guided', which the back end 'replay' lacks" in error


def test_a_forced_call_needs_guided_decoding(less_able):
    asked = request(TRANSCRIPTS["required_choice"])
    with (
        replay_engine() as engine,
        pytest.raises(CapabilityError, match="request 'required_choice' with tool_choice='requi"),
    ):
        engine.generate_text_batch([asked])


@pytest.mark.parametrize("make", [list, iter])
def test_the_constraints_of_a_row_are_read_once(monkeypatch, less_able, make):
    read: list[str] = []

    def count(raw, kind):
        read.append(raw["guided_regex"])
        return decode_request(raw, kind)

    monkeypatch.setattr(preparation, "decode_request", count)
    rows = [ask("Hi", guided_regex=each) for each in "abc"]
    with replay_engine(fallback_backend="sglang") as engine:
        list(engine.iterate_text_batch(make(rows)))
    assert read == ["a", "b", "c"]


def test_a_row_that_fails_is_there_before_another_is_read(loads):
    read = []

    def requests():
        for number, row in enumerate([LONG, LONG, HELLO, LONG, WORLD]):
            read.append(number)
            yield row

    with replay_engine() as engine:
        seen = [
            (index, result.error is None, list(read), list(loads))
            for index, result in engine.iterate_text_batch(requests())
        ]
    assert seen == [
        (0, False, [0], []),
        (1, False, [0, 1], []),
        (2, True, [0, 1, 2], ["replay"]),
        (3, False, [0, 1, 2, 3], ["replay"]),
        (4, True, [0, 1, 2, 3, 4], ["replay"]),
    ]
