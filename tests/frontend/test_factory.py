"""The back end of a model, and the engine that answers its requests."""

import argparse
import asyncio
import sys
from contextlib import asynccontextmanager
from typing import Any

import pytest
from backedge.base.errors import RequestError, SetupError
from backedge.frontend import factory
from backedge.frontend.chat_model import Blocks, Deployment
from backedge.frontend.factory import (
    EngineFactory,
    as_async_generator,
    find_user_engine,
    refuse_requests,
)
from backedge.frontend.flags import FrontendFlags
from backedge.frontend.model_builder import ChatModelBuilder
from backedge.frontend.teardown import RunningRequests
from backedge.postprocess.messages import KEY, WorkerCard, encode
from backedge.tokenization import tokenizer_selection as backends
from backedge.tokenization.tokenizer_selection import KEY as TOKENIZER_KEY
from backedge.tokenization.tokenizer_selection import TokenizerSelection

from tests.engines.frontends.all_edges import CONFIG
from tests.frontend.doubles import Card, Context, Instance

CAPABILITY = WorkerCard(engine="vllm", engine_version="1")


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
    files = backends.TokenizerFiles()
    selected = backends.select_tokenizer(
        TokenizerSelection(flag), TokenizerSelection(), engine, files
    )
    assert selected[0] == backend


TOKENIZER = "tests.engines.frontends.edge_tokenizer"
PYTHON = {"backend": "python", "module": TOKENIZER, "class_name": "Wrapped"}


def build(entry, *, selection=None, allowed=()):
    """Return what answers the requests of a model whose workers put `entry` on its card."""
    runtime_data = {KEY: encode(CAPABILITY), TOKENIZER_KEY: entry}
    flags = argparse.Namespace(tool_call_parser=None, reasoning_parser=None, chat_template=None)
    ours = FrontendFlags(
        selection or TokenizerSelection(), "auto", [], allowed_modules=tuple(allowed)
    )
    return asyncio.run(build_answer(EngineFactory(CONFIG, flags, ours), runtime_data, flags))


async def build_answer(made, runtime_data, flags):
    engine: Any = None
    card = Card({"runtime_data": runtime_data})
    return await made._build_answer(Deployment(Instance(), card, engine, CONFIG, flags))


@pytest.mark.parametrize("module", [TOKENIZER, "os", "subprocess", "tests.frontend.no_such"])
def test_a_module_that_workers_name_is_imported_only_if_it_is_allowed(module, monkeypatch):
    monkeypatch.delitem(sys.modules, TOKENIZER, raising=False)
    with pytest.raises(SetupError, match=f"--allow-tokenizer-module {module}"):
        build({**PYTHON, "module": module}, allowed=["other", module + ".x"])
    assert TOKENIZER not in sys.modules


def test_what_is_allowed_is_used():
    assert build(PYTHON, allowed=[TOKENIZER])
    mistral = {"module": "backedge.tokenization.mistral", "class_name": "MistralTokenizer"}
    assert build({"backend": "python", **mistral})
    own = TokenizerSelection("huggingface")
    assert build({**PYTHON, "module": "os"}, selection=own), "the frontend's own flags choose"
    assert build({"backend": "of tomorrow"}, selection=own)


def test_a_model_that_is_not_served_says_why(caplog):
    card = Card({"runtime_data": {TOKENIZER_KEY: {"backend": "of tomorrow"}}})
    flags = argparse.Namespace(tool_call_parser=None, reasoning_parser=None, chat_template=None)
    engine: Any = None

    async def build_engine():
        factory = EngineFactory(CONFIG, flags, FrontendFlags(TokenizerSelection(), "auto", []))
        return await factory.chat_engine_factory(Instance(), card, engine)

    assert asyncio.run(build_engine()), "Dynamo lists the model"
    assert "model tiny is not served: tokenizer back end 'of tomorrow'" in caplog.text

    async def ask():
        return [item async for item in refuse_requests("tiny", "no reason")({}, Context())]

    (item,) = asyncio.run(ask())
    assert (item["error"]["class"], item["error"]["public"]["message"]) == (
        "WorkerUnavailable",
        "model 'tiny' is not served: no reason",
    )


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
            raise RequestError("n", "must be 1")

    answer = as_async_generator(Answer(), RunningRequests())({"n": 0}, Context())

    async def run():
        return await anext(answer), await anext(answer)

    first, refusal = asyncio.run(run())
    assert first == {"data": {"n": 0}}
    assert refusal["event"] == "error"
    assert "`n`" in refusal["error"]["public"]["message"]


class FakeBuilder(ChatModelBuilder):
    """Builds a preprocessor that raises its back end's name."""

    backend = ""
    reads_media = True

    async def build(self):
        @asynccontextmanager
        async def prepare(*_):
            raise RequestError(self.backend, "prepares it")
            yield

        factories: Any = None  # nothing is post-processed
        return Blocks(prepare, factories)


IMAGE = {"type": "image_url", "image_url": {"url": "http://127.0.0.1/x.png"}}
# flag, whether the model reads media, content, back end
MEDIA = [
    (None, True, "hi", "huggingface"),
    (None, True, [IMAGE], "vllm"),
    (None, False, [IMAGE], "huggingface"),
    ("huggingface", True, [IMAGE], "huggingface"),
    ("vllm", True, "hi", "vllm"),
]


@pytest.mark.parametrize(("flag", "takes_media", "content", "backend"), MEDIA)
def test_only_media_need_the_engines_own_back_end(
    installed, monkeypatch, flag, takes_media, content, backend
):
    installed("vllm sglang")

    def load(name):
        return type("Fake", (FakeBuilder,), {"backend": name, "reads_media": takes_media})

    monkeypatch.setattr(factory, "load_builder", load)
    flags = argparse.Namespace(tool_call_parser=None, reasoning_parser=None, chat_template=None)

    async def ask():
        ours = FrontendFlags(TokenizerSelection(flag), "auto", [])
        made = EngineFactory(CONFIG, flags, ours)
        answer = await build_answer(made, {KEY: encode(CAPABILITY)}, flags)
        request = {"model": "tiny", "messages": [{"role": "user", "content": content}]}
        return [item async for item in answer(request, Context())]

    (item,) = asyncio.run(ask())
    assert f"`{backend}` prepares it" in str(item)
