"""Which forward edge a model gets, and the engine that answers its requests."""

import argparse
import asyncio
import importlib.util
import sys
from typing import Any

import pytest
from backedge.frontend import factory
from backedge.frontend.factory import (
    EngineFactory,
    advertised_tokenizer,
    as_async_generator,
    find_user_engine,
)
from backedge.parsers.errors import RequestError, SetupError
from backedge.postprocess.messages import KEY, WorkerCard, encode
from backedge.tokenization import selection as backends
from backedge.tokenization.flags import TokenizerSelection

from tests.frontend.doubles import Card, Context
from tests.frontend.edges.all_edges import CONFIG

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


TOKENIZER = "tests.frontend.edges.edge_tokenizer"


def build(module, class_name, *, selection=None, allowed=()):
    """Have the factory build a model whose workers ask for this class."""
    worker_card = WorkerCard(
        engine="vllm",
        engine_version="1",
        tokenizer_backend="python",
        tokenizer_module=module,
        tokenizer_class=class_name,
    )
    flags = argparse.Namespace(tool_call_parser=None, reasoning_parser=None, chat_template=None)
    made = EngineFactory(CONFIG, flags, selection, allowed_modules=allowed)
    card = Card({"runtime_data": {KEY: encode(worker_card)}})
    engine: Any = None
    return asyncio.run(made.chat_engine_factory(1, card, engine))


@pytest.fixture(autouse=True)
def no_collector(monkeypatch):
    """Leave garbage to the interpreter: a model here outlives its event loop."""
    monkeypatch.setattr(factory, "collect_after", lambda model: None)


@pytest.mark.parametrize("module", [TOKENIZER, "os", "subprocess", "tests.frontend.no_such"])
def test_a_module_that_workers_name_is_imported_only_if_it_is_allowed(module, monkeypatch):
    monkeypatch.delitem(sys.modules, TOKENIZER, raising=False)
    with pytest.raises(SetupError, match=f"--allow-tokenizer-module {module}"):
        build(module, "Wrapped", allowed=["other", module + ".x"])
    assert TOKENIZER not in sys.modules


def test_what_is_allowed_is_used():
    assert build(TOKENIZER, "Wrapped", allowed=[TOKENIZER])
    assert build("backedge.tokenization.mistral", "MistralTokenizer")
    own = TokenizerSelection("huggingface")
    assert build("os", "system", selection=own), "the frontend's own flags choose"


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

    first, refusal = asyncio.run(run())
    assert first == {"data": {"n": 0}}
    assert refusal["event"] == "error"
    assert "`n`" in refusal["error"]["public"]["message"]
