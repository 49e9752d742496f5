"""Every tokenizer back end with real workers: all on one model, failing classes."""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path

import openai
import pytest

from tests.e2e.client import Client, Response, ask_transcripts
from tests.e2e.conftest import (
    BACKEDGE_MODEL,
    BACKENDS,
    CLASS,
    MODULE,
    ON_PATH,
    VLLM_PARSERS,
    RoutedFleet,
)
from tests.e2e.forked import ForkingStack
from tests.e2e.test_kv_routing import find_busy
from tests.e2e.test_transcripts import ALL, STREAMED, check
from tests.support import TRANSCRIPTS, Transcript

PREFIX = "the same conversation again and again " * 50
CONVERSATIONS = (
    "multilingual_text",
    "reasoning_call",
    "parallel_calls",
    "after_tool_result",
    "required_choice",
    "named_choice",
)


@pytest.fixture(scope="module")
def answers(routed_fleet: RoutedFleet) -> dict[tuple[str, str, bool], Future[Response]]:
    return {
        (backend, *case): future
        for backend, frontend in routed_fleet.frontends.items()
        for case, future in ask_transcripts(frontend, BACKEDGE_MODEL, CONVERSATIONS).items()
    }


@pytest.mark.parametrize("name", CONVERSATIONS)
@STREAMED
def test_the_same_conversation_gets_the_same_answer(
    answers: dict[tuple[str, str, bool], Future[Response]], name: str, stream: bool
) -> None:
    responses = {backend: answers[backend, name, stream].result() for backend in BACKENDS}
    assert {backend: response.message for backend, response in responses.items()} == dict.fromkeys(
        BACKENDS, TRANSCRIPTS[name]["expect"]
    )
    assert len({response.usage.prompt_tokens for response in responses.values()}) == 1


@ALL
@STREAMED
def test_linear_parsers_give_exactly_the_transcript(
    routed_fleet: RoutedFleet, stream: bool, transcript: Transcript
) -> None:
    answers = ask_transcripts(routed_fleet.frontends["vllm"], BACKEDGE_MODEL)
    check(answers[transcript["id"], stream].result(), transcript, stream=stream)
    for worker in routed_fleet.workers:
        assert "linear parsers qwen3+hermes" in worker.log.read_text()


def test_a_prefix_goes_to_the_same_worker(routed_fleet: RoutedFleet) -> None:
    homes = set()
    for number, frontend in enumerate(routed_fleet.frontends.values()):
        before = routed_fleet.prompt_tokens()
        messages = [
            {"role": "system", "content": PREFIX},
            {"role": "user", "content": f"question {number}"},
        ]
        response = Client(frontend.url, BACKEDGE_MODEL).ask({"messages": messages}, max_tokens=4)
        homes.add(find_busy(before, routed_fleet.prompt_tokens()))
        assert (response.usage.prompt_tokens_details.cached_tokens > 0) is (number > 0)
    assert len(homes) == 1


# module, class, part of the log
BAD_CLASSES = [
    ("tests.e2e.bad_tokenizers", "RaisesAtOnce", "no luck"),
    ("tests.e2e.bad_tokenizers", "EncodesToText", "list[int]"),
]


@pytest.mark.parametrize(("module", "class_name", "cause"), BAD_CLASSES)
def test_a_bad_class_is_a_503_that_the_log_explains(
    tmp_path: Path, module: str, class_name: str, cause: str
) -> None:
    with ForkingStack(tmp_path) as stack:
        stack.replay("--tool-call-parser", "hermes", wait=False)
        names = (MODULE, module, CLASS, class_name)
        frontend = stack.frontend("--tokenizer-backend", "python", *names, wait=False, **ON_PATH)
        stack.wait_for_model(frontend)
        for _ in range(2):
            with pytest.raises(openai.InternalServerError) as refused:
                Client(frontend.url, "tiny").ask(TRANSCRIPTS["plain_text"])
            assert refused.value.status_code == 503
        log = frontend.log.read_text()
        assert f"{module}:{class_name}" in log
        assert "for model /" in log or class_name == "EncodesToText"
        assert cause in log


def check_one_failure(client: Client) -> None:
    """Assert that exactly one of many requests fails."""
    outcomes: list[str | None] = []
    for _ in range(60):
        try:
            outcomes.append(client.ask(TRANSCRIPTS["plain_text"]).answer.content)
        except openai.APIError:
            outcomes.append(None)
    assert outcomes.count(None) == 1
    assert set(outcomes) - {None} == {TRANSCRIPTS["plain_text"]["expect"]["content"]}


def test_a_class_that_fails_at_the_thousandth_call_ends_that_request_only(tmp_path: Path) -> None:
    with ForkingStack(tmp_path) as stack:
        # A plain worker, so that the frontend detokenizes, with the class that encoded.
        stack.replay("--plain", wait=False)
        names = (MODULE, "tests.e2e.bad_tokenizers", CLASS, "FailsLater")
        frontend = stack.frontend("--tokenizer-backend", "python", *names, wait=False, **ON_PATH)
        stack.wait_for_model(frontend)
        check_one_failure(Client(frontend.url, "tiny"))
        assert "FailsLater.decode" in frontend.log.read_text()


def test_a_worker_detokenizes_with_the_class_that_encodes(tmp_path: Path) -> None:
    names = (
        "--tokenizer-backend",
        "python",
        MODULE,
        "tests.e2e.bad_tokenizers",
        CLASS,
        "FailsLater",
    )
    with ForkingStack(tmp_path, **ON_PATH) as stack:
        worker = stack.worker("--vllm-processing", *VLLM_PARSERS, *names, wait=False)
        allowed = ("--allow-tokenizer-module", "tests.e2e.bad_tokenizers")
        frontend = stack.frontend(*allowed, wait=False)
        stack.wait_for_model(frontend)
        assert "FailsLater" in frontend.log.read_text(), "the model card carries the choice"
        check_one_failure(Client(frontend.url, "tiny"))
        assert "FailsLater.decode" in worker.log.read_text()


def test_an_engine_of_the_users_own(routed_fleet: RoutedFleet) -> None:
    """The example engine factory adds a system prompt and logs the tokens."""
    own = routed_fleet.stack.frontend("--engine-factory", "my_engine:HouseRule", **ON_PATH)
    routed_fleet.stack.wait_for_model(own)
    question = TRANSCRIPTS["plain_text"]
    messages = [{"role": "system", "content": "Answer briefly."}, *question["messages"]]
    plain = Client(routed_fleet.frontends["vllm"].url, BACKEDGE_MODEL)
    expected = plain.ask({**question, "messages": messages}, max_tokens=8)
    response = Client(own.url, BACKEDGE_MODEL).ask(question, max_tokens=8)
    assert response.message == expected.message
    assert response.usage.prompt_tokens == expected.usage.prompt_tokens
    assert "my_engine" in own.log.read_text()
    with pytest.raises(openai.BadRequestError, match="min_tokens"):
        Client(own.url, BACKEDGE_MODEL).ask(question, max_tokens=5, extra_body={"min_tokens": 9})
