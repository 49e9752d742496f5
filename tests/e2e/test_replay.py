"""The replay worker, through the frontend without an engine and through vLLM's forward edge."""

from __future__ import annotations

import json
import re
import shlex
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import openai
import pytest
from backedge.cli.main import main
from backedge.recording.parser_case import read_case
from backedge.recording.recording import Recording
from backedge.recording.recording_file import read_recordings
from click.testing import CliRunner

from tests.cli.replay.recordings import call, write
from tests.e2e import test_requests
from tests.e2e.client import Client, ask_transcripts, build_request, eventually
from tests.e2e.conftest import AUTO_PARSERS
from tests.e2e.forked import ForkingStack
from tests.e2e.test_requests import requests_of_any_worker
from tests.e2e.test_transcripts import (
    ALL,
    STREAMED,
    generated,
    reasoning_tokens,
    rendered,
)
from tests.pairwise import WHOLE
from tests.support import TRANSCRIPTS, Transcript, as_whole
from tools.stack import HUGGINGFACE_FRONTEND, ROOT, Process, Stack, metric

PARSERS = ("--tool-call-parser", "hermes", "--reasoning-parser", "qwen3")
# Post-processed in the worker; in the frontend, by its own flags; in the worker, but slowly; in a
# worker of an engine with Dynamo's own interface.
PROCESSED, PLAIN, SLOW, CONTRACT = "replay", "plain", "slow", "contract"
# Records its requests, which a native parser gets wrong; docs/tutorial-wrong-call.md.
WRONG = "wrong"
# Replays a recorded request.
RECORDED = "recorded"
ROWS = pytest.mark.parametrize(
    "model",
    [PROCESSED, PLAIN, CONTRACT],
    ids=["in the worker", "in the frontend", "behind Dynamo's interface"],
)
DEADLINE_S = 20.0
TUTORIAL = ROOT / "docs" / "tutorial-wrong-call.md"


def read_tutorial_flags() -> tuple[str, ...]:
    """Return the flags of the tutorial's worker, but for its folders and its name."""
    (command,) = re.findall(r"^python -m backedge\.worker\.demo (.*)$", read_page(), re.MULTILINE)
    flags = shlex.split(command)
    for name in ("--served-model-name", "--postprocess-record"):
        position = flags.index(name)
        del flags[position : position + 2]
    return tuple(str(ROOT / flag) if (ROOT / flag).is_dir() else flag for flag in flags)


def read_page() -> str:
    return TUTORIAL.read_text(encoding="utf-8")


TUTORIAL_FLAGS = read_tutorial_flags()


@dataclass
class ReplayFleet:
    """Replay workers and two frontends; only `vllm` imports vLLM or torch."""

    slow: Process
    frontend: Process
    vllm: Process
    folder: Path


@pytest.fixture(scope="module")
def replay(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReplayFleet]:
    folder = tmp_path_factory.mktemp("replay")
    asked = (
        *("--postprocess-record", f"{folder / 'asked'}:0", "--postprocess-record-on-request", "on"),
    )
    with Stack(folder) as stack, ForkingStack(folder / "forked", **stack.environment) as forked:
        stack.replay(*PARSERS, *asked, name=PROCESSED, wait=False)
        # In one namespace, a frontend would send each model's requests to all three workers.
        stack.replay("--plain", "--namespace", "plain", name=PLAIN, wait=False)
        slow = stack.replay(
            *PARSERS, "--tokens-per-second", "20", "--namespace", "slow", name=SLOW, wait=False
        )
        engine = ("-m", "tests.e2e.contract_engine")
        contract = (*AUTO_PARSERS, "--namespace", CONTRACT)
        stack.replay(*contract, name=CONTRACT, command=engine, wait=False)
        recorded = write(folder / "recorded.jsonl", record_for(RECORDED))
        again = ("--recordings", recorded, "--namespace", RECORDED)
        stack.replay(*PARSERS, *again, name=RECORDED, wait=False)
        wrong = (*TUTORIAL_FLAGS, "--postprocess-record", str(folder / "traces"))
        stack.replay(*wrong, "--namespace", WRONG, name=WRONG, wait=False)
        frontend = stack.frontend(*PARSERS, *asked, command=HUGGINGFACE_FRONTEND, wait=False)
        vllm = forked.frontend(*PARSERS, "--tokenizer-backend", "vllm", wait=False)
        for each in (frontend, vllm):
            for model in (PROCESSED, PLAIN, SLOW, CONTRACT):
                stack.wait_for_model(each, model)
        for model in (WRONG, RECORDED):
            stack.wait_for_model(frontend, model)
        yield ReplayFleet(slow, frontend, vllm, folder)


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
    assert response.message == (transcript["expect"] if stream else as_whole(transcript["expect"]))
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


class TestRequestsOfTheInterface:
    """What a chat request can ask for; the cases of the patched workers' own module."""

    @pytest.fixture
    def client(self, replay: ReplayFleet) -> Client:
        return Client(replay.frontend.url, CONTRACT)


# The replay engine knows its transcripts' prompts and tokens only: it has no cache, generates
# nothing past an end, knows no prompt without its tools, no probabilities but of tokens by number.
WITH_AN_ENGINE = {
    "test_max_tokens_and_ignore_eos",
    "test_tool_choice_none_leaves_the_text_alone",
    "test_logprobs_name_every_token",
    "test_probabilities_of_the_prompt",
    "test_cached_tokens",
}
OF_THE_INTERFACE = [name for name in requests_of_any_worker() if name not in WITH_AN_ENGINE]
for name in OF_THE_INTERFACE if WHOLE else ():
    setattr(TestRequestsOfTheInterface, name, staticmethod(getattr(test_requests, name)))


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
        r"only replays \d+ transcripts, none",
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
    ({"messages": [{"role": "user", "content": "many " * 3000}]}, r"at most \d+ tokens"),
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


@pytest.mark.parametrize("model", [PROCESSED, PLAIN])
def test_an_unknown_prompt_of_a_completion_gets_the_nearest_questions(
    replay: ReplayFleet, model: str
) -> None:
    part = r'in parentheses: "What is 17 \+ 25\?" \(nothing else\)'
    with pytest.raises(openai.BadRequestError, match=part):
        Client(replay.frontend.url, model).openai.completions.create(
            model=model, prompt="What is 17 + 25?"
        )


def test_doctor_sees_who_post_processes_what(replay: ReplayFleet) -> None:
    discovery = str(replay.frontend.log.parent / "discovery")
    words = ["doctor", replay.frontend.url, "--discovery", discovery, "--worker", replay.slow.url]
    result = CliRunner().invoke(main, [*words, "--json"])
    found = {one["topic"]: one for one in json.loads(result.stdout)["findings"]}
    assert result.exit_code == 0, found
    assert "Backedge's, and sees" in found["frontend"]["message"]
    assert found["models"]["message"] == ", ".join(
        sorted((PLAIN, PROCESSED, SLOW, CONTRACT, WRONG, RECORDED))
    )
    assert "post-processing with hermes and qwen3" in found[PROCESSED]["message"]
    assert "1 of plain Dynamo" in found[PLAIN]["message"]
    assert "no parser has failed" in found["worker"]["message"]


def list_recordings(folder: Path) -> dict[str, list[Recording]]:
    """Return the recordings in a folder, by the source that the files' names give.

    A file is made before its first recording is written: a source without one is left out.
    """
    found: dict[str, list[Recording]] = {}
    for path in folder.glob("*.jsonl"):
        for recording in read_recordings(path):
            found.setdefault(path.name.split("-")[1], []).append(recording)
    return found


def test_a_header_asks_for_a_recording(replay: ReplayFleet) -> None:
    transcript, folder = TRANSCRIPTS["reasoning_call"], replay.folder / "asked"
    client = Client(replay.frontend.url, PROCESSED)
    client.ask(transcript)
    assert not folder.exists()
    client.ask(transcript, extra_headers={"x-dynamo-meta-backedge-record": "on"})
    assert eventually(lambda: set(list_recordings(folder)) == {"worker", "frontend"})
    found = list_recordings(folder)
    for source, recordings in found.items():
        (recording,) = recordings
        assert (recording.source, recording.outcome) == (source, "finished")
        assert recording.redacted
        (tool,) = recording.params.parser.tools
        assert tool["function"]["name"] == "N1", "tokens replaced it, so their number may differ"
    ids = {recording.params.response_id for (recording,) in found.values()}
    assert len(ids) == 1, "both sides name the request alike"
    for path in folder.glob("*.jsonl"):
        result = CliRunner().invoke(main, ["replay", str(path)])
        assert result.exit_code == 0, result.output


def record_for(model: str) -> Recording:
    recording = call()
    params = msgspec.structs.replace(recording.params, model=model)
    return msgspec.structs.replace(recording, params=params)


def test_a_recorded_request_through_a_running_stack(replay: ReplayFleet) -> None:
    command = ["replay", str(replay.folder / "recorded.jsonl"), "--url", replay.frontend.url]
    equal = CliRunner().invoke(main, command)
    assert (equal.exit_code, f"against {replay.frontend.url}" in equal.output) == (0, True)
    different = CliRunner().invoke(main, [*command, "--tool-call-parser", ""])
    assert (different.exit_code, "get_weather" in different.output) == (1, True)


def test_the_tutorial(replay: ReplayFleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its request to its worker, and then its commands, which print what it says."""
    request = json.loads((ROOT / "examples" / "wrong_call" / "request.json").read_text())
    client = Client(replay.frontend.url, WRONG)
    answer = client.openai.chat.completions.create(**{**request, "model": WRONG})
    (call,) = answer.choices[0].message.tool_calls or [None]
    assert call is not None
    shown = {"name": call.function.name, "arguments": call.function.arguments}
    assert json.dumps(shown) in read_page()
    monkeypatch.chdir(replay.folder)
    assert eventually(lambda: "worker" in list_recordings(replay.folder / "traces"))
    (traces,) = (replay.folder / "traces").glob("*.jsonl")
    for block in re.findall(r"^```console\n(.*?)```$", read_page(), re.MULTILINE | re.DOTALL):
        line, _, expected = block.partition("\n")
        program, *arguments = line.removeprefix("$ ").replace("traces/*.jsonl", str(traces)).split()
        assert program == "backedge"
        result = CliRunner().invoke(main, arguments)
        assert re.sub(r"chatcmpl-\w+", "chatcmpl-1", result.stdout) == expected, result.stderr
        assert result.exit_code == ("different" in expected)
    case = read_case(replay.folder / "case.json")
    kept = read_case(ROOT / "tests" / "cases" / "functiongemma_number.json")
    assert msgspec.structs.replace(case, id=kept.id) == kept
    shown_text = CliRunner().invoke(main, ["inspect", str(traces), "--text"])
    assert (shown_text.exit_code, "count" in shown_text.output) == (0, True)
