"""The replay engine: outputs like an engine's, until their limits."""

import asyncio

import pytest
from backedge.testing.replay_worker.engine import ReplayEngine

from tests.support import TRANSCRIPTS
from tests.testing.replay_worker.recordings import (
    COUNT,
    FILES,
    RECORDINGS,
    TOKENS,
    Context,
    prompt,
    replay,
    request,
    tokens,
)

EOS = FILES.eos_token_ids[0]
FIFTH = TOKENS[4]
FIRST_FIFTH = TOKENS.index(FIFTH) + 1
# stop conditions, tokens, finish_reason, stop_reason
ENDINGS = [
    ({}, len(TOKENS), "stop", None),
    ({"max_tokens": 5}, 5, "length", None),
    ({"max_tokens": len(TOKENS)}, len(TOKENS), "stop", None),
    ({"stop_token_ids": [FIFTH]}, FIRST_FIFTH, "stop", FIFTH),
    ({"stop_token_ids_hidden": [FIFTH]}, FIRST_FIFTH, "stop", FIFTH),
    ({"stop_token_ids": [EOS]}, len(TOKENS), "stop", None),
    ({"stop_token_ids": [EOS], "ignore_eos": True}, len(TOKENS), "stop", EOS),
]


@pytest.mark.parametrize(("conditions", "length", "finish_reason", "stop_reason"), ENDINGS)
def test_ends_where_the_request_says(conditions, length, finish_reason, stop_reason):
    outputs = replay(request(stop_conditions=conditions))
    assert tokens(outputs) == TOKENS[:length]
    assert outputs[-1]["finish_reason"] == finish_reason
    assert outputs[-1].get("stop_reason") == stop_reason
    usage = {"prompt_tokens": len(prompt(COUNT)), "completion_tokens": length}
    assert usage.items() <= outputs[-1]["completion_usage"].items()


def test_min_tokens_holds_stop_tokens_back():
    outputs = replay(request(stop_conditions={"stop_token_ids": [TOKENS[0]], "min_tokens": 2}))
    assert len(tokens(outputs)) >= 2


def test_all_choices_run_side_by_side():
    outputs = replay(request(sampling_options={"n": 2}))
    assert [output["index"] for output in outputs[:4]] == [0, 1, 0, 1]
    assert tokens(outputs, 0) == tokens(outputs, 1) == TOKENS
    assert outputs[-1]["completion_usage"]["completion_tokens"] == 2 * len(TOKENS)


def test_an_ended_choice_is_generated_no_further():
    outputs = replay(request(sampling_options={"n": 2}), end=[0])
    assert tokens(outputs, 0) == TOKENS[:1]
    assert tokens(outputs, 1) == TOKENS
    assert tokens(replay(request(), end=[0])) == TOKENS[:1]


def test_a_client_that_goes_away_ends_it():
    assert tokens(replay(request(), Context(stop_after=3))) == TOKENS[:3]


def test_the_pace_is_kept():
    loop_s = asyncio.run(seconds(tokens_per_second=200.0, stop_conditions={"max_tokens": 21}))
    assert loop_s > 18 / 200.0  # a sleep may end early, by the resolution of the clock


async def seconds(stop_conditions, **options):
    loop = asyncio.get_running_loop()
    start = loop.time()
    engine = ReplayEngine(RECORDINGS.find, **options)
    async for _ in engine.start(
        request(TRANSCRIPTS["count"], stop_conditions=stop_conditions), Context()
    ).outputs():
        pass
    return loop.time() - start


def test_logprobs_are_there_if_asked_for():
    first = replay(request(output_options={"logprobs": 0}))[0]
    assert first["log_probs"] == [0.0]
    assert first["top_logprobs"][0][0]["token_id"] == first["token_ids"][0]
    assert "log_probs" not in replay(request())[0]


def test_packed_token_ids_are_read():
    asked = request()
    asked["token_ids"] = b"".join(token_id.to_bytes(4, "little") for token_id in asked["token_ids"])
    assert tokens(replay(asked)) == TOKENS
