"""What the workers of all engines share, with an engine that answers at once."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from types import ModuleType
from typing import Any

import pytest
from backedge.base.errors import BackedgeError, UnknownParserError
from backedge.base.json_types import JsonObject
from backedge.engines.dynamo.types import GRAMMAR_WAITS
from backedge.engines.dynamo.types import Context as DynamoContext
from backedge.engines.vllm import worker as vllm
from backedge.parsers.base import ParserNames
from backedge.parsers.linear_parsers import LinearParsers
from backedge.parsers.passthrough import PassthroughParsers
from backedge.postprocess.delta_builder import aggregate_deltas
from backedge.postprocess.messages import KEY, PostprocessedChunk, WorkerCard, read
from backedge.postprocess.messages import encode as encode_message
from backedge.tokenization import read_tokenizer_config
from backedge.tokenization.tokenizer_selection import KEY as TOKENIZER_KEY
from backedge.tokenization.tokenizer_selection import TokenizerSelection
from backedge.worker import flags
from backedge.worker.engine_request import EngineRequestHandle
from backedge.worker.engine_worker import (
    EngineModel,
    GenerateCall,
    choose_parsers,
    pool_parts,
)
from backedge.worker.patched_worker import PatchedWorker
from dynamo.llm import ModelRuntimeConfig
from dynamo.llm.exceptions import InvalidArgument

from tests.frontend.doubles import Context
from tests.support import TRANSCRIPTS, encode, params, tiny_tokenizer
from tests.worker.scripted import Engine

TEXT = "one, two, three"
NAMES = ParserNames("hermes", "qwen3")


class ScriptedWorker(PatchedWorker[None, None]):
    """Loads the tiny model's tokenizer, and notes the calls that it runs."""

    engine = vllm.ENGINE
    model_path = "the/model"

    def __init__(self, **settings: Any) -> None:
        super().__init__(None, flags.WorkerSettings(**settings))
        self.calls: list[GenerateCall[None]] = []

    text_flag: str | None = None
    parsers_in_rust = ParserNames()

    def install_card(self) -> None:
        pass

    def check_names(self, also_known: set[str]) -> None:
        pass

    def post_processes(self) -> bool:
        return True

    def install(self) -> None:
        pass

    def load(self) -> EngineModel:
        parsers = choose_parsers(
            self.settings.parsers, self.settings.names, tiny_tokenizer(), PassthroughParsers
        )
        return EngineModel(tiny_tokenizer(), parsers, {})

    def find_vocabulary_size(self, handler: None) -> int | None:
        return tiny_tokenizer().get_vocab_size()

    def run(
        self, call: GenerateCall[None]
    ) -> tuple[AsyncIterator[JsonObject], EngineRequestHandle]:
        self.calls.append(call)
        return call.start(), Engine([])


async def generate(
    handler: None, request: JsonObject, context: DynamoContext
) -> AsyncGenerator[Any, None]:
    """Stand for the `generate` of Dynamo's handler."""
    for token_id in encode(TEXT):
        yield {"token_ids": [token_id]}
    yield {"token_ids": [], "finish_reason": "length"}


def answer(worker: ScriptedWorker, request: JsonObject) -> list[JsonObject]:
    async def read_all() -> list[JsonObject]:
        stream = worker.with_postprocessing(generate)(None, request, Context())
        return [chunk async for chunk in stream]

    return asyncio.run(read_all())


def test_a_request_with_params_is_post_processed() -> None:
    worker = ScriptedWorker()
    worker.build()
    request = {"token_ids": [7, 8], "extra_args": {KEY: encode_message(params(prompt_length=2))}}
    sent = [chunk["extra_args"][KEY] for chunk in answer(worker, request)]
    posts = [read(PostprocessedChunk, post) for post in sent]
    whole = aggregate_deltas([delta for post in posts if post for delta in post.deltas])
    assert whole.delta.content == TEXT
    (call,) = worker.calls
    assert (call.context.id(), call.token_ids, call.params.n) == ("request-1", [7, 8], 1)


@pytest.mark.parametrize("built", [True, False])
def test_other_requests_pass_untouched(built: bool) -> None:
    worker = ScriptedWorker()
    if built:
        worker.build()
    chunks = answer(worker, {"token_ids": [7, 8]})
    assert [token_id for chunk in chunks for token_id in chunk["token_ids"]] == encode(TEXT)
    assert worker.calls == []


def test_requests_of_stock_frontends_get_their_text_unless_that_is_switched_off() -> None:
    request = {"token_ids": [7, 8], "mdc_sum": "1", "stop_conditions": {"stop": [TEXT[3:6]]}}
    for settings, texts in (({}, TEXT[:3]), ({"stock_frontends": False}, None)):
        worker = ScriptedWorker(**settings)
        worker.build()
        chunks = answer(worker, dict(request))
        if texts is None:
            assert not any("text" in chunk for chunk in chunks)
        else:
            assert "".join(chunk["text"] for chunk in chunks) == texts
            assert [call.is_stock for call in worker.calls] == [True]
            assert chunks[-1]["stop_reason"] == TEXT[3:6]


REFUSED: dict[str, JsonObject] = {
    "stop_conditions.stop_token_ids": {"stop_conditions": {"stop_token_ids": [60_000_000]}},
    "eos_token_ids": {"eos_token_ids": [1 << 32]},
    f"{KEY}.prompt_length": {"extra_args": {KEY: encode_message(params(prompt_length=3))}},
    f"{KEY}.n": {"extra_args": {KEY: encode_message(params(n=1 << 40))}},
    "list": {"token_ids": b"abc", "extra_args": {KEY: encode_message(params())}},
}


@pytest.mark.parametrize(("field", "fields"), REFUSED.items(), ids=REFUSED)
def test_what_would_end_the_engine_is_refused(field: str, fields: JsonObject) -> None:
    worker = ScriptedWorker()
    worker.build()
    request = {"token_ids": [7, 8], **fields}
    stream = worker.with_postprocessing(generate)(None, request, Context())

    async def read_one() -> JsonObject:
        return await anext(stream)

    with pytest.raises(InvalidArgument, match=re.escape(field) if field != "list" else "multiple"):
        asyncio.run(read_one())
    assert worker.calls == []
    assert answer(worker, {"token_ids": [7, 8]}), "the next request is answered"


def test_the_card_names_parsers_and_tokenizer() -> None:
    worker = ScriptedWorker(names=NAMES, tokenizer=TokenizerSelection("vllm"))
    worker.build()
    config = ModelRuntimeConfig()
    asyncio.run(worker.publish_worker_card(config))
    asyncio.run(
        worker.publish_worker_card(None)
    )  # a model that is registered without a configuration
    card = read(WorkerCard, json.loads(config.runtime_data[KEY]))
    assert card is not None
    assert (card.engine, card.tool_call_parser, card.reasoning_parser) == (
        "vllm",
        "hermes",
        "qwen3",
    )
    assert tokenizer_on(config) == TokenizerSelection("vllm")


def test_the_card_tells_of_grammars_that_begin_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ScriptedWorker, "grammar_waits", False)
    worker = ScriptedWorker(names=NAMES)
    worker.build()
    config = ModelRuntimeConfig()
    asyncio.run(worker.publish_worker_card(config))
    assert config.runtime_data[GRAMMAR_WAITS] == "false"


def tokenizer_on(config: ModelRuntimeConfig) -> TokenizerSelection:
    """Return what a frontend reads: Dynamo sends it the values decoded."""
    decoded = {key: json.loads(value) for key, value in config.runtime_data.items()}
    return read_tokenizer_config({"runtime_data": decoded})


def test_a_worker_that_does_not_post_process_advertises_its_tokenizer_alone() -> None:
    worker = ScriptedWorker(
        post_processing=False, tokenizer=TokenizerSelection("python", "my.module", "My")
    )
    config = ModelRuntimeConfig()
    asyncio.run(worker.publish_worker_card(config))
    assert list(config.runtime_data) == [TOKENIZER_KEY]
    assert tokenizer_on(config) == TokenizerSelection("python", "my.module", "My")


def test_a_tokenizer_of_the_users_that_is_not_there_is_refused_before_the_engine_loads() -> None:
    worker = ScriptedWorker(tokenizer=TokenizerSelection("python", "no.such.module", "Tokenizer"))
    with pytest.raises(BackedgeError, match=r"no\.such\.module"):
        worker.build()


@pytest.mark.parametrize(
    ("kind", "names", "expected"),
    [
        ("auto", NAMES, LinearParsers),
        ("linear", NAMES, LinearParsers),
        ("native", NAMES, PassthroughParsers),
        ("auto", ParserNames("only the engine has it"), PassthroughParsers),
    ],
)
def test_which_parsers_are_chosen(kind: Any, names: ParserNames, expected: type) -> None:
    assert isinstance(choose_parsers(kind, names, tiny_tokenizer(), PassthroughParsers), expected)


def test_linear_parsers_need_a_format_of_ours() -> None:
    with pytest.raises(UnknownParserError, match="only the engine has it"):
        choose_parsers(
            "linear", ParserNames("only the engine has it"), tiny_tokenizer(), PassthroughParsers
        )


@pytest.fixture
def adapter(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return what the `pool_parts` of a module named "adapter" was called with."""
    calls: list[Any] = []

    def own_parts(names: ParserNames, **arguments: Any) -> tuple[Any, Any]:
        calls.append((names, arguments))
        return tiny_tokenizer(), PassthroughParsers()

    module: Any = ModuleType("adapter")
    module.pool_parts = own_parts
    monkeypatch.setitem(sys.modules, "adapter", module)
    return calls


def test_a_process_of_the_pool_gets_the_adapters_parts(adapter: list[Any]) -> None:
    fields = {"tool_call": "hermes", "reasoning": None}
    detokenizers, parsers = pool_parts("adapter", fields, {"path": "x"}, None)
    assert adapter == [(ParserNames("hermes"), {"path": "x"})]
    assert isinstance(parsers, PassthroughParsers)
    token_ids = encode(TRANSCRIPTS["count"]["output"])[:9]
    assert detokenizers(params().detokenizer, []).feed_all(token_ids)
