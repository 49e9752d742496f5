"""Any tokenizer in front of real workers: four back ends on one model, mistral-common alone, classes that fail."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import mistral_common
import openai
import pytest

from tests.e2e.client import Client
from tests.e2e.conftest import VLLM_PARSERS
from tests.e2e.test_kv_routing import PREFIXES, kv_events, prompt_tokens
from tests.support import TRANSCRIPTS
from tools.stack import ROOT, Process, Stack, worker_is_ready

MODULE, CLASS = "--tokenizer-module", "--tokenizer-class"
BACKENDS = {
    "huggingface": ("--tokenizer-backend", "huggingface"),
    "vllm": ("--tokenizer-backend", "vllm"),
    "sglang": ("--tokenizer-backend", "sglang"),
    "python": (
        "--tokenizer-backend",
        "python",
        MODULE,
        "tests.frontend.edges.edge_tokenizer",
        CLASS,
        "Wrapped",
    ),
}
ON_PATH: dict[str, Any] = {"PYTHONPATH": f"{ROOT}:{ROOT / 'examples'}"}
MISTRAL = (
    "--tokenizer-backend",
    "python",
    MODULE,
    "backedge.tokenization.mistral",
    CLASS,
    "MistralTokenizer",
)
# A Mistral of random weights; only its vocabulary's size matters.
CONFIG = {
    "architectures": ["MistralForCausalLM"],
    "model_type": "mistral",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 32,
    "vocab_size": 131072,
    "max_position_embeddings": 2048,
    "tie_word_embeddings": True,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


@pytest.fixture(scope="module")
def fleet(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[dict[str, Process], list[Process]]]:
    """Return a frontend for each back end, all with the KV router, and two workers."""
    with Stack(tmp_path_factory.mktemp("backends")) as stack:
        flags = ("--vllm-processing", *VLLM_PARSERS, "--enable-prefix-caching")
        workers = [
            stack.worker(*flags, "--kv-events-config", kv_events(), wait=False) for _ in range(2)
        ]
        frontends = {
            name: stack.frontend("--router-mode", "kv", *flags, wait=False, **ON_PATH)
            for name, flags in BACKENDS.items()
        }
        for worker in workers:
            worker.wait_for(partial(worker_is_ready, worker.url))
        for frontend in frontends.values():
            stack.wait_for_model(frontend)
        yield frontends, workers


@pytest.mark.parametrize(
    "name", ["multilingual_text", "reasoning_call", "parallel_calls", "after_tool_result"]
)
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
def test_the_same_conversation_gets_the_same_answer(
    fleet: tuple[dict[str, Process], list[Process]], name: str, stream: bool
) -> None:
    transcript = TRANSCRIPTS[name]
    responses = {
        backend: Client(frontend.url, "tiny").ask(transcript, stream=stream)
        for backend, frontend in fleet[0].items()
    }
    assert {backend: response.message for backend, response in responses.items()} == dict.fromkeys(
        BACKENDS, transcript["expect"]
    )
    assert len({response.usage.prompt_tokens for response in responses.values()}) == 1


def test_a_prefix_goes_to_the_same_worker(fleet: tuple[dict[str, Process], list[Process]]) -> None:
    frontends, workers = fleet
    homes = set()
    for number, frontend in enumerate(frontends.values()):
        before = prompt_tokens(workers)
        messages = [
            {"role": "system", "content": PREFIXES["words"]},
            {"role": "user", "content": f"question {number}"},
        ]
        response = Client(frontend.url, "tiny").ask({"messages": messages}, max_tokens=4)
        after = prompt_tokens(workers)
        homes.add(
            next(
                worker
                for worker, (old, new) in enumerate(zip(before, after, strict=True))
                if new > old
            )
        )
        assert (response.usage.prompt_tokens_details.cached_tokens > 0) is (number > 0)
    assert len(homes) == 1


@pytest.fixture(scope="module")
def tekken(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Process]]:
    """Return frontends with vLLM's and our mistral-common, before a worker whose model has a tekken.json alone."""
    folder = tmp_path_factory.mktemp("tekken")
    model = folder / "model"
    model.mkdir()
    shutil.copy(
        Path(mistral_common.__file__).parent / "data" / "tekken_240911.json", model / "tekken.json"
    )
    (model / "config.json").write_text(json.dumps(CONFIG))
    mode = ("--tokenizer-mode", "mistral")
    with Stack(folder / "stack") as stack:
        engine = (
            "--vllm-processing",
            "--tool-call-parser",
            "mistral",
            "--load-format",
            "dummy",
            *mode,
        )
        stack.worker(*engine, model=model, name="tekken", wait=False)
        frontends = [stack.frontend("--tokenizer-backend", "vllm", *mode), stack.frontend(*MISTRAL)]
        for frontend in frontends:
            stack.wait_for_model(frontend, "tekken")
        yield frontends


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
def test_a_model_with_a_tekken_file_alone_answers(tekken: list[Process], stream: bool) -> None:
    question = {"messages": [{"role": "user", "content": "Hello 世界"}]}
    fields: dict[str, Any] = {
        "max_tokens": 24,
        "extra_body": {"nvext": {"extra_fields": ["completion_token_ids"]}},
    }
    of_vllm, ours = (
        Client(frontend.url, "tekken").ask(question, stream=stream, **fields) for frontend in tekken
    )
    assert ours.message == of_vllm.message
    assert ours.answer.content
    assert ours.token_ids == of_vllm.token_ids
    assert ours.usage.prompt_tokens == of_vllm.usage.prompt_tokens


# what is loaded, what the log says
BAD_CLASSES = [
    ("no_such_module", "C", "ModuleNotFoundError"),
    ("tests.tokenization.broken", "NoSuchClass", "NoSuchClass"),
    ("tests.e2e.bad_tokenizers", "RaisesAtOnce", "no luck"),
    ("tests.e2e.bad_tokenizers", "EncodesToText", "list[int]"),
]


@pytest.mark.parametrize(("module", "class_name", "cause"), BAD_CLASSES)
def test_a_bad_class_is_a_503_that_the_log_explains(
    tmp_path: Path, module: str, class_name: str, cause: str
) -> None:
    with Stack(tmp_path) as stack:
        stack.replay("--tool-call-parser", "hermes", wait=False)
        frontend = stack.frontend(
            "--tokenizer-backend", "python", MODULE, module, CLASS, class_name, **ON_PATH
        )
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
    """Assert that one of many requests fails, and all others are whole."""
    outcomes: list[str | None] = []
    for _ in range(60):
        try:
            outcomes.append(client.ask(TRANSCRIPTS["plain_text"]).answer.content)
        except openai.APIError:
            outcomes.append(None)
    assert outcomes.count(None) == 1
    assert set(outcomes) - {None} == {TRANSCRIPTS["plain_text"]["expect"]["content"]}


def test_a_class_that_fails_at_the_thousandth_call_ends_that_request_only(tmp_path: Path) -> None:
    with Stack(tmp_path) as stack:
        # A plain worker, so that the frontend detokenizes, with the class that encoded.
        stack.replay("--plain", wait=False)
        names = (MODULE, "tests.e2e.bad_tokenizers", CLASS, "FailsLater")
        frontend = stack.frontend("--tokenizer-backend", "python", *names, **ON_PATH)
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
    with Stack(tmp_path, **ON_PATH) as stack:
        worker = stack.worker("--vllm-processing", *VLLM_PARSERS, *names, wait=False)
        frontend = stack.frontend()
        stack.wait_for_model(frontend)
        assert "FailsLater" in frontend.log.read_text(), "the model card carries the choice"
        check_one_failure(Client(frontend.url, "tiny"))
        assert "FailsLater.decode" in worker.log.read_text()


@pytest.mark.parametrize(
    ("flags", "cause"),
    [
        (
            ("--tokenizer-backend", "python", MODULE, "no_such_module", CLASS, "C"),
            "ModuleNotFoundError",
        ),
        (("--tokenizer-backend", "python"), "needs --tokenizer-module"),
        ((MODULE, "m"), "which is not set"),
        (("--tokenizer-backend", "abacus"), "huggingface"),
        (("--tokenizer-backend", "huggingface", "--use-vllm-tokenizer"), "answer with text"),
    ],
)
def test_a_worker_with_a_bad_choice_does_not_start(
    tmp_path: Path, flags: tuple[str, ...], cause: str
) -> None:
    with Stack(tmp_path) as stack:
        worker = stack.worker("--vllm-processing", *flags, wait=False)
        assert worker.popen.wait(timeout=240) != 0
        assert cause in worker.log.read_text()


def test_an_engine_of_the_users_own(tmp_path: Path) -> None:
    """The example: a system prompt is added, and tokens are logged."""
    with Stack(tmp_path) as stack:
        stack.worker("--vllm-processing", *VLLM_PARSERS, wait=False)
        plain = stack.frontend(wait=False)
        own = stack.frontend("--engine-factory", "my_engine:HouseRule", wait=False, **ON_PATH)
        for frontend in (plain, own):
            stack.wait_for_model(frontend)
        question = TRANSCRIPTS["plain_text"]
        messages = [{"role": "system", "content": "Answer briefly."}, *question["messages"]]
        expected = Client(plain.url, "tiny").ask({**question, "messages": messages}, max_tokens=8)
        response = Client(own.url, "tiny").ask(question, max_tokens=8)
        assert response.message == expected.message
        assert response.usage.prompt_tokens == expected.usage.prompt_tokens
        assert "my_engine" in own.log.read_text()
        with pytest.raises(openai.BadRequestError, match="min_tokens"):
            Client(own.url, "tiny").ask(question, max_tokens=5, extra_body={"min_tokens": 9})
