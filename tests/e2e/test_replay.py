"""The replay worker, through the frontend without an engine and through vLLM's forward edge."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import openai
import pytest
from backedge.cli.main import main
from click.testing import CliRunner

from tests.e2e.client import Client, ask_transcripts, build_request
from tests.e2e.test_transcripts import (
    ALL,
    STREAMED,
    as_dynamo_folds,
    generated,
    reasoning_tokens,
    rendered,
)
from tests.support import TRANSCRIPTS, Transcript
from tools.stack import HUGGINGFACE_FRONTEND, Process, Stack, metric

PARSERS = ("--tool-call-parser", "hermes", "--reasoning-parser", "qwen3")
# Post-processed in the worker; in the frontend, by its own flags; in the worker, but slowly.
PROCESSED, PLAIN, SLOW = "replay", "plain", "slow"
ROWS = pytest.mark.parametrize(
    "model", [PROCESSED, PLAIN], ids=["in the worker", "in the frontend"]
)
DEADLINE_S = 20.0


@dataclass
class ReplayFleet:
    """Replay workers and two frontends; only `vllm` imports vLLM or torch."""

    slow: Process
    frontend: Process
    vllm: Process


@pytest.fixture(scope="module")
def replay(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReplayFleet]:
    with Stack(tmp_path_factory.mktemp("replay")) as stack:
        stack.replay(*PARSERS, name=PROCESSED, wait=False)
        # In one namespace, a frontend would send each model's requests to all three workers.
        stack.replay("--plain", "--namespace", "plain", name=PLAIN, wait=False)
        slow = stack.replay(
            *PARSERS, "--tokens-per-second", "20", "--namespace", "slow", name=SLOW, wait=False
        )
        frontend = stack.frontend(*PARSERS, command=HUGGINGFACE_FRONTEND, wait=False)
        vllm = stack.frontend(*PARSERS, "--tokenizer-backend", "vllm", wait=False)
        for each in (frontend, vllm):
            for model in (PROCESSED, PLAIN, SLOW):
                stack.wait_for_model(each, model)
        yield ReplayFleet(slow, frontend, vllm)


def output_tokens(transcript: Transcript) -> int | None:
    """Return how many tokens are generated; None for a forced call, written as JSON here."""
    return None if transcript.get("tool_choice") else generated(transcript)


def test_no_engine_is_loaded(replay: ReplayFleet) -> None:
    for process in (replay.slow, replay.frontend):
        libraries = Path(f"/proc/{process.popen.pid}/maps").read_text(encoding="utf-8")
        assert "dynamo" in libraries
        assert "torch" not in libraries


@ALL
@STREAMED
@ROWS
def test_gives_exactly_the_transcript(
    replay: ReplayFleet, model: str, stream: bool, transcript: Transcript
) -> None:
    response = ask_transcripts(replay.frontend, model)[transcript["id"], stream].result()
    assert response.message == (
        transcript["expect"] if stream else as_dynamo_folds(transcript["expect"])
    )
    usage = response.usage
    assert usage.prompt_tokens == len(rendered(transcript["id"]))
    assert usage.completion_tokens == (output_tokens(transcript) or usage.completion_tokens)
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
    assert usage.completion_tokens_details.reasoning_tokens == reasoning_tokens(transcript)


@ROWS
@STREAMED
@pytest.mark.parametrize("name", ["reasoning_call", "required_choice"])
def test_vllms_edge_gives_the_same(
    replay: ReplayFleet, model: str, stream: bool, name: str
) -> None:
    transcript = TRANSCRIPTS[name]
    assert (
        Client(replay.vllm.url, model).ask(transcript, stream=stream).message
        == transcript["expect"]
    )


@ROWS
@STREAMED
def test_two_choices(replay: ReplayFleet, model: str, stream: bool) -> None:
    transcript = TRANSCRIPTS["reasoning_call"]
    response = Client(replay.frontend.url, model).ask(
        transcript, stream=stream, n=2, temperature=0.5
    )
    assert [answer.message for _, answer in sorted(response.answers.items())] == [
        transcript["expect"]
    ] * 2
    assert response.usage.completion_tokens == 2 * generated(transcript)


@ROWS
def test_logprobs(replay: ReplayFleet, model: str) -> None:
    transcript = TRANSCRIPTS["plain_text"]
    response = Client(replay.frontend.url, model).ask(transcript, logprobs=True, top_logprobs=1)
    text = "".join(entry.token for entry in response.answer.logprobs)
    assert text == transcript["expect"]["content"] + "<|im_end|>"


def test_stop_token_ids(replay: ReplayFleet) -> None:
    transcript = TRANSCRIPTS["plain_text"]
    whole = Client(replay.frontend.url, PROCESSED).ask(
        transcript, extra_body={"nvext": {"extra_fields": ["completion_token_ids"]}}
    )
    stop = whole.token_ids[3]
    response = Client(replay.frontend.url, PROCESSED).ask(
        transcript, metadata={"backedge": f'{{"stop_token_ids": [{stop}]}}'}
    )
    assert response.usage.completion_tokens == whole.token_ids.index(stop) + 1
    assert response.stop_reason == stop


def test_a_client_that_goes_away_stops_the_worker(replay: ReplayFleet) -> None:
    client = Client(replay.frontend.url, SLOW)
    stream = client.openai.chat.completions.create(
        **build_request(TRANSCRIPTS["count"], SLOW, {}), stream=True
    )
    next(iter(stream))
    stream.close()
    deadline = time.monotonic() + DEADLINE_S  # the whole answer takes 35 s
    while metric(replay.slow.url, "dynamo_component_inflight_requests") > 0:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert metric(replay.slow.url, "dynamo_component_cancellation_total") >= 1


# fields, part of the message
REFUSED = [
    (
        {"messages": [{"role": "user", "content": "unheard of"}]},
        r"only replays \d+ transcripts, and none",
    ),
    ({"max_tokens": 5, "extra_body": {"min_tokens": 9}}, "`min_tokens`"),
    (
        {
            "messages": [
                {
                    "role": "user",
                    "content": [{"type": "image_url", "image_url": {"url": "http://x"}}],
                }
            ]
        },
        "vLLM",
    ),
    ({"messages": [{"role": "user", "content": "many " * 3000}]}, "tokens long"),
]


@STREAMED
@pytest.mark.parametrize(("fields", "part"), REFUSED)
def test_a_request_that_cannot_be_answered_is_a_400(
    replay: ReplayFleet, stream: bool, fields: dict[str, Any], part: str
) -> None:
    with pytest.raises(openai.BadRequestError, match=part):
        Client(replay.frontend.url, PROCESSED).ask(
            TRANSCRIPTS["plain_text"], stream=stream, **fields
        )


def test_doctor_sees_who_post_processes_what(replay: ReplayFleet) -> None:
    discovery = str(replay.frontend.log.parent / "discovery")
    words = ["doctor", replay.frontend.url, "--discovery", discovery, "--worker", replay.slow.url]
    result = CliRunner().invoke(main, [*words, "--json"])
    found = {one["topic"]: one for one in json.loads(result.stdout)["findings"]}
    assert result.exit_code == 0, found
    assert "Backedge's, and sees" in found["frontend"]["message"]
    assert found["models"]["message"] == ", ".join(sorted((PLAIN, PROCESSED, SLOW)))
    assert "post-processing with hermes and qwen3" in found[PROCESSED]["message"]
    assert "1 of plain Dynamo" in found[PLAIN]["message"]
    assert "no parser has failed" in found["worker"]["message"]
