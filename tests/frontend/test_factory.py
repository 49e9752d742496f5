"""Which forward edge a model gets, and the engine that answers its requests."""

import asyncio
import importlib.util
from typing import Any

import pytest
from backedge.frontend.factory import advertised_tokenizer, as_async_generator, find_user_engine
from backedge.parsers.errors import RequestError, SetupError
from backedge.postprocess.messages import WorkerCard
from backedge.tokenization import selection as backends
from backedge.tokenization.flags import TokenizerSelection
from dynamo.llm.exceptions import InvalidArgument

from tests.frontend.doubles import Context

CAPABILITY = WorkerCard(engine="vllm", engine_version="1")


@pytest.fixture
def installed(monkeypatch):
    def install(engines):
        monkeypatch.setattr(
            importlib.util,
            "find_spec",
            lambda package: object() if package in engines.split() else None,
        )

    return install


SGLANG = WorkerCard(engine="sglang", engine_version="1")
# flag, what the worker says, engines that are there, back end
BACKENDS = [
    (None, CAPABILITY, "vllm sglang", "vllm"),
    (None, SGLANG, "vllm sglang", "sglang"),
    (None, SGLANG, "vllm", "huggingface"),
    (None, WorkerCard(engine="replay", engine_version="1"), "vllm sglang", "huggingface"),
    (None, None, "vllm sglang", "vllm"),
    (None, None, "sglang", "sglang"),
    (None, None, "", "huggingface"),
    ("huggingface", SGLANG, "vllm sglang", "huggingface"),
    ("sglang", CAPABILITY, "vllm sglang", "sglang"),
]


@pytest.mark.parametrize(("flag", "worker_card", "engines", "backend"), BACKENDS)
def test_the_edge_of_a_model(installed, flag, worker_card, engines, backend):
    installed(engines)
    engine = None if worker_card is None else worker_card.engine
    worker = advertised_tokenizer(worker_card)
    assert backends.select_tokenizer(TokenizerSelection(flag), worker, engine)[0] == backend


def test_a_tokenizer_that_this_version_does_not_know_is_ignored():
    newer = WorkerCard(engine="vllm", engine_version="9", tokenizer_backend="of_tomorrow")
    assert advertised_tokenizer(newer) == TokenizerSelection()


class Engine:
    """An engine of a user's."""

    def __init__(self, model):
        self.model = model


NO_ENGINE = 5


def test_an_engine_of_the_users_is_found_by_its_name():
    found: Any = find_user_engine(f"{__name__}:Engine")
    assert found("model").model == "model"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("no_such_module:Engine", "ModuleNotFoundError"),
        (f"{__name__}:Missing", "AttributeError"),
        (f"{__name__}:NO_ENGINE", "it is 5"),
    ],
)
def test_an_engine_that_cannot_be_used_is_named_with_the_reason(name, reason):
    with pytest.raises(SetupError, match=reason) as refused:
        find_user_engine(name)
    assert name in str(refused.value)


def test_errors_of_the_users_engine_are_http_errors():
    class Answer:
        async def __call__(self, request, context):
            yield {"data": request}
            raise RequestError("n", 0, "1")

    answer = as_async_generator(Answer())({"n": 0}, Context())

    async def run():
        return await anext(answer), await anext(answer)

    with pytest.raises(InvalidArgument, match="`n`"):
        asyncio.run(run())
